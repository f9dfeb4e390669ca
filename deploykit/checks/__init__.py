"""Judging an artifact: against a reference, step by step, by its speed."""
