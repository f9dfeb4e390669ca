"""Matrix products with the semantics of `numpy.matmul`, over any batch dims and element type.

Sums are kept in `accumulator(dtype)`: float16 is summed in float32, every other dtype in itself. uint16 elements that
are summed in float32 are the bits of bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import sym, te, tirx

from deploykit.basics.mapped import set_aside

ANCHOR = {"deploykit.anchor": "matmul"}
"""The annotation of a product's block. If the right operand is in panels, `deploykit.panel` gives their width."""


def accumulator(dtype: str) -> str:
    """The dtype in which products of elements of `dtype` are summed."""
    return "float32" if dtype == "float16" else dtype


def widened(element: Any, dtype: str) -> Any:
    """An operand's element, converted to the dtype of the sums."""
    if dtype == "float32" and str(element.ty.dtype) == "uint16":
        return tirx.reinterpret(dtype, element.astype("uint32") << tirx.const(16, "uint32"))
    return element.astype(dtype)


def matmul(a: te.Tensor, b: te.Tensor, dtype: str) -> te.Tensor:
    """`a @ b` for operands of rank 1 or more. The result has dtype `dtype`."""
    rows = a.shape[-2:-1]
    columns = list(b.shape[-1:]) if len(b.shape) > 1 else []
    batch = broadcast(list(a.shape[:-2]), list(b.shape[:-2]))
    depth = te.reduce_axis((0, a.shape[-1]), name="k")
    wide = accumulator(dtype)

    def element(*index: Any) -> Any:
        lead = index[: len(batch)]
        row = index[len(batch) : len(batch) + len(rows)]
        column = index[len(batch) + len(rows) :]
        left = a(*batch_index(a.shape[:-2], lead, batch), *row, depth)
        right = b(*batch_index(b.shape[:-2], lead, batch), depth, *column)
        return te.sum(widened(left, wide) * widened(right, wide), axis=depth)

    product = te.compute((*batch, *rows, *columns), element, name="matmul", attrs=ANCHOR)
    return rounded(product, dtype)


def packed_matmul(a: te.Tensor, panels: te.Tensor, columns: Any, dtype: str) -> te.Tensor:
    """`a @ b`, where `panels` is `pack(b)` and `b` has `columns` columns; `a` is of rank 2 or more."""
    rows, width = a.shape[-2], panels.shape[-1]
    lead_shape = list(panels.shape[:-3])
    batch = broadcast(list(a.shape[:-2]), lead_shape)
    depth = te.reduce_axis((0, a.shape[-1]), name="k")
    wide = accumulator(dtype)

    def element(*index: Any) -> Any:
        *lead, row, column = index
        left = a(*batch_index(a.shape[:-2], lead, batch), row, depth)
        right = panels(*batch_index(lead_shape, lead, batch), *place(width, depth, column))
        return te.sum(widened(left, wide) * widened(right, wide), axis=depth)

    attrs = {**ANCHOR, "deploykit.panel": int(width)}
    return rounded(te.compute((*batch, rows, columns), element, name="matmul", attrs=attrs), dtype)


def place(width: Any, k: Any, column: Any) -> tuple[Any, Any, Any]:
    """The index in panels of the element `[k, column]` of a matrix."""
    return tirx.floordiv(column, width), k, tirx.floormod(column, width)


def pack(b: te.Tensor, width: int) -> te.Tensor:
    """The matrix `[..., K, N]` as panels `[..., ceil(N / width), K, width]`, padded with zeros."""
    *lead, depth, columns = b.shape
    panels = _simplify((columns + (width - 1)) // width)

    def element(*index: Any) -> Any:
        *at, panel, k, j = index
        column = panel * width + j
        return tirx.if_then_else(column < columns, b(*at, k, column), tirx.const(0, b.dtype))

    return te.compute((*lead, panels, depth, width), element, name="pack")


def pack_array(b: np.ndarray, width: int) -> np.ndarray:
    """`pack` of a constant."""
    *lead, depth, columns = b.shape
    panels = -(-columns // width)
    padded = b
    if columns != panels * width:
        padded = np.zeros((*lead, depth, panels * width), b.dtype)
        padded[..., :columns] = b
    return set_aside(np.moveaxis(padded.reshape(*lead, depth, panels, width), -2, -3))


def rounded(value: te.Tensor, dtype: str) -> te.Tensor:
    """`value` converted to `dtype`."""
    if value.dtype == dtype:
        return value
    return te.compute(value.shape, lambda *index: value(*index).astype(dtype), name="rounded")


def broadcast(a: list[Any], b: list[Any]) -> list[Any]:
    """The broadcast shape. If neither size is known to be 1, both are assumed to be the larger one."""
    rank = max(len(a), len(b))
    a = [1] * (rank - len(a)) + a
    b = [1] * (rank - len(b)) + b
    return [_joint(x, y) for x, y in zip(a, b, strict=True)]


def _joint(x: Any, y: Any) -> Any:
    if _is_one(x):
        return y
    if _is_one(y) or sym.Analyzer().can_prove_equal(x, y) or isinstance(x, tirx.IntImm):
        return x
    if isinstance(y, tirx.IntImm):
        return y
    return tirx.max(x, y)


def batch_index(sizes: Sequence[Any], index: Sequence[Any], batch: Sequence[Any]) -> list[Any]:
    """The batch index in an operand with batch dims `sizes`, for batch `index` of the result."""
    skipped = len(batch) - len(sizes)
    return [_pick(size, i, extent) for size, i, extent in zip(sizes, index[skipped:], batch[skipped:], strict=True)]


def _pick(size: Any, index: Any, extent: Any) -> Any:
    if _is_one(size):
        return tirx.IntImm("int64", 0)
    if sym.Analyzer().can_prove_equal(size, extent):
        return index
    return tirx.min(index, size - 1)


def _is_one(value: Any) -> bool:
    return isinstance(value, int | tirx.IntImm) and int(value) == 1


def _simplify(value: Any) -> Any:
    return value if isinstance(value, int) else sym.Analyzer().simplify(value)
