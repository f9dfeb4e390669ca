"""Kernels without a reduction: one pass over the output."""
