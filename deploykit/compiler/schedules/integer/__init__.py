"""Schedules of sums of products of 8-bit integers."""
