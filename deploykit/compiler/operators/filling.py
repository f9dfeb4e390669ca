"""Operators whose values follow from positions: ConstantOfShape, Range, EyeLike, Trilu."""

from __future__ import annotations

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import numpy_dtype, to_storage
from deploykit.compiler.operators.broadcast import compute_dtype, load, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import ceil_div, expr, is_plain, maximum
from deploykit.compiler.operators.value import Value

LONGEST_RANGE = 1 << 40
"""Elements: a Range computed at run time is cut off here, as a dim is."""


def stored(number: float, dtype: str) -> ir.Expr:
    """A number as an element of logical `dtype`."""
    return element_of(np.asarray(number).astype(numpy_dtype(dtype)))


def element_of(array: np.ndarray) -> ir.Expr:
    """The first element of an array as kernels store it."""
    bits = to_storage(array.reshape(-1)[:1])
    return tirx.const(bits[0].item(), bits.dtype.name)


def known_range(ctx: Context, like: Value, first: IntExpr, end: IntExpr, step: IntExpr) -> Value:
    if is_plain(step) and not step:
        raise Unsupported("a step of 0")
    size = ctx.simplify(maximum(ceil_div(end - first, step) if _is_positive(step) else ceil_div(first - end, -step), 0))

    def build() -> te.Tensor:
        return compute((size,), lambda i: store(first + expr(i) * step, like.dtype), name="range")

    return ctx.kernel("range", build, dtype=like.dtype)


def _is_positive(step: IntExpr) -> bool:
    return is_plain(step) and step > 0


def runtime_range(ctx: Context, start: Value, limit: Value, delta: Value) -> Value:
    """The count is computed as ONNX Runtime does, floats in float64; a step of 0 gives an empty result."""
    exact = "int64" if start.dtype.startswith("int") else "float64"

    def scalar(tensor: te.Tensor, dtype: str) -> ir.Expr:
        return load(tensor, start.dtype, [0] * len(tensor.shape)).astype(dtype)

    def count(*tensors: te.Tensor) -> te.Tensor:
        first, end, step = (scalar(t, exact) for t in tensors)
        one = tirx.const(1, exact)
        if exact == "int64":
            safe = tirx.Select(step == 0, one, step)
            steps = tirx.Select(safe > 0, -tirx.floordiv(first - end, safe), -tirx.floordiv(end - first, -safe))
        else:
            ratio = tirx.ceil((end - first) / tirx.Select(step == 0, one, step))
            limits = tirx.const(0, exact), tirx.const(LONGEST_RANGE, exact)
            steps = tirx.Cast("int64", tirx.max(tirx.min(ratio, limits[1]), limits[0]))
        bounded = tirx.max(tirx.min(steps, expr(LONGEST_RANGE)), expr(0))
        return compute((1,), lambda _: tirx.Select(step == 0, expr(0), bounded), name="count")

    (size,) = ctx.ints(ctx.kernel("range_count", count, start, limit, delta, dtype="int64"), minimum=0, hint="count")

    def build(*tensors: te.Tensor) -> te.Tensor:
        wide = compute_dtype(start.dtype)
        first, step = scalar(tensors[0], wide), scalar(tensors[1], wide)
        return compute((size,), lambda i: store(first + tirx.Cast(wide, i) * step, start.dtype), name="range")

    return ctx.kernel("range", build, start, delta, dtype=start.dtype)
