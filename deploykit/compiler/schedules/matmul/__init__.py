"""Schedules of matrix products in register tiles."""
