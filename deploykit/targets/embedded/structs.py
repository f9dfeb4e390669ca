"""Bytes of the structs that an application provides, on machines with pointers of 4 and of 8 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POINTERS = (4, 8)
"""Bytes of pointers that machines have."""
_ERROR_TEXT = 256
"""`DK_ERROR_TEXT`, with texts of errors."""
_MAX_RANK = 16
_NEED = 24


def tensor_bytes(pointer: int) -> int:
    """Bytes of a `dk_tensor`: an address and a size, dtype and rank, the extents."""
    return 2 * pointer + 8 + 8 * _MAX_RANK


def model_bytes(function: Mapping[str, Any], pointer: int) -> int:
    """Bytes of the struct of a function, given as the view of its header: a `dk_model`, the dims, and where states are.
    A function that runs instances has more."""
    base = 6 * pointer + 3 * 4
    aligned = -(-base // 8) * 8 + _NEED + _ERROR_TEXT
    return aligned + 8 * max(len(function["dims"]), 1) + (2 * pointer if function["states"] else 0)
