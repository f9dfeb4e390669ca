"""Sizes of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.program.ir import Tensor


def item_bytes(dtype: str) -> int:
    """Bytes of one element of a storage dtype."""
    return int(np.dtype(dtype).itemsize)


def element_count(shape: Iterable[IntExpr]) -> IntExpr:
    result: IntExpr = 1
    for extent in shape:
        result = extent if isinstance(result, int) and result == 1 else result * extent
    return result


def tensor_bytes(tensor: Tensor) -> IntExpr:
    """Bytes of a tensor, as an expression over its dims."""
    return element_count(tensor.shape) * item_bytes(tensor.dtype)
