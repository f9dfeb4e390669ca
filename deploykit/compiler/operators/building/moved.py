"""Values whose elements need not move: their channels stay last (`channels`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deploykit.compiler.operators.building.value import Value


def first_of(last: Value) -> Value:
    """A value of shape (N, C, ...) with the elements of `last` (N, ..., C)."""
    n, *spatial, channels = last.shape
    return Value(last.dtype, (n, channels, *spatial), last=last)


def channels_moved(value: Value, order: Sequence[int]) -> Value | None:
    """`value` transposed, if that moves its channels only and costs nothing; else `None`."""
    spatial = range(1, value.rank - 1)
    if value.last is not None and list(order) == [0, *(axis + 1 for axis in spatial), 1]:
        return replace(value.last, inexact=value.inexact)
    if value.dtype not in ("int8", "uint8") or list(order) != [0, value.rank - 1, *spatial] or not spatial:
        return None
    return first_of(value)
