"""Tests of usecases."""
