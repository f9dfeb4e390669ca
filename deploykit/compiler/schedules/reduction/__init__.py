"""Reductions over any axes, and rows of them."""
