"""Schedules of reductions over any axes, and of kernels that run row by row."""
