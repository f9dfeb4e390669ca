"""Checks of an artifact: its results against a reference, its speed, and the time of each step."""
