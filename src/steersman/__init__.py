"""Steersman learns which action to play and keeps a logbook that proves why."""
