"""Tests, by the layer that they test."""
