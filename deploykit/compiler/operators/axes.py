"""Axes as operators are given them: numbers of which negative ones count from the end."""

from __future__ import annotations

from deploykit.compiler.operators.errors import Unsupported


def from_front(axis: int, rank: int, name: str = "axis") -> int:
    """An axis of a tensor of `rank`, counted from the front. Raises `Unsupported` when out of range."""
    if not -rank <= axis < rank:
        raise Unsupported(f"{name} {axis} is outside of a tensor of rank {rank}")
    return axis % rank
