"""Operators on tensors of strings."""
