"""Operators on quantised numbers, and exact products of them."""
