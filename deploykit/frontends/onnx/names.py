"""How dims are called, and the licence of a model in its metadata."""

from __future__ import annotations

from collections.abc import Mapping

_UNKNOWN = ("", "?")
"""Dim names that stand for an unknown size (Paddle writes `?`): two dims with such a name may differ."""


def dim_name(port: str, axis: int, param: str | None = None, item: str = "") -> str:
    """How a dim is called whose size the model's file gives as `param`, in the shape of the input `port`. Dims in the
    items of a sequence end with `item`."""
    return f"{port}_dim{axis}" if param is None or param in _UNKNOWN else f"{param}{item}"


_LICENSE = ("model_license", "license", "model_licence", "licence")
"""What metadata call the licence of a model. (Source of the first: ONNX's IR.md, "Optional Metadata".)"""


def license_of(metadata: Mapping[str, str]) -> str | None:
    """The licence that the metadata of a model name, or whose text they have."""
    given = {name.lower(): text.strip() for name, text in metadata.items()}
    return next((given[name] for name in _LICENSE if given.get(name)), None)
