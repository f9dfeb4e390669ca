"""How dims are called."""

from __future__ import annotations

_UNKNOWN = ("", "?")
"""Dim names that stand for an unknown size (Paddle writes `?`): two dims with such a name may differ."""


def dim_name(port: str, axis: int, param: str | None = None, item: str = "") -> str:
    """How a dim is called whose size the model's file gives as `param`, in the shape of the input `port`. Dims in the
    items of a sequence end with `item`."""
    return f"{port}_dim{axis}" if param is None or param in _UNKNOWN else f"{param}{item}"
