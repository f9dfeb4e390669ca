"""Lowers a scheduled PrimFunc to a kernel with the raw ABI (`lower.lower`)."""
