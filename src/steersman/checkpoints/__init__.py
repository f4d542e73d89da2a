"""Checkpoints: one file that holds a fitted policy, what it was made for, and how it was made."""
