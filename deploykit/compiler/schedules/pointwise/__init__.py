"""Schedules of kernels without a reduction: one pass over the output."""
