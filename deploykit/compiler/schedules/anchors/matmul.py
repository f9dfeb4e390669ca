"""Matrix products with the semantics of `numpy.matmul`, over any batch dims and element type.

Sums are kept in `accumulator(dtype)`: float16 is summed in float32, everything else in its own type.
"""

from __future__ import annotations

from typing import Any

from tvm import sym, te, tirx

ANCHOR = {"deploykit.anchor": "matmul"}


def accumulator(dtype: str) -> str:
    """The type in which products of elements of `dtype` are summed."""
    return "float32" if dtype == "float16" else dtype


def matmul(a: te.Tensor, b: te.Tensor, dtype: str) -> te.Tensor:
    """`a @ b` for operands of rank 1 or more; the result has element type `dtype`."""
    rows = a.shape[-2:-1]
    columns = list(b.shape[-1:]) if len(b.shape) > 1 else []
    batch = broadcast(list(a.shape[:-2]), list(b.shape[:-2]))
    depth = te.reduce_axis((0, a.shape[-1]), name="k")
    wide = accumulator(dtype)

    def element(*index: Any) -> Any:
        lead = index[: len(batch)]
        row = index[len(batch) : len(batch) + len(rows)]
        column = index[len(batch) + len(rows) :]
        left = a(*batch_index(a, lead, batch), *row, depth)
        right = b(*batch_index(b, lead, batch), depth, *column)
        return te.sum(left.astype(wide) * right.astype(wide), axis=depth)

    product = te.compute((*batch, *rows, *columns), element, name="matmul", attrs=ANCHOR)
    return rounded(product, dtype)


def rounded(value: te.Tensor, dtype: str) -> te.Tensor:
    """`value` converted to `dtype`."""
    if value.dtype == dtype:
        return value
    return te.compute(value.shape, lambda *index: value(*index).astype(dtype), name="rounded")


def broadcast(a: list[Any], b: list[Any]) -> list[Any]:
    """The broadcast shape. Where neither size is known to be 1, both are taken to be the larger one."""
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


def batch_index(operand: te.Tensor, index: tuple[Any, ...], batch: list[Any]) -> list[Any]:
    """Where in the batch dims of `operand` the element of batch `index` of the result is."""
    sizes = list(operand.shape[:-2])
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
