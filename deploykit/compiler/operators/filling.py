"""Operators whose elements depend only on their positions: `fill`, `arange`, `eye`, `triangle`.

(Source: ONNX operators ConstantOfShape, Range, EyeLike, Trilu.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import numpy_dtype, stored_elements
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import ceil_div, expr, is_plain, maximum
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value, constant
from deploykit.compiler.operators.elementwise import unfolded_zero

LONGEST_RANGE = 1 << 40
"""The most elements of a range computed at run time; a longer one is cut off here, as dims are."""

FURTHEST_DIAGONAL = 1 << 40
"""A limit for diagonals: one further away holds no element of any tensor."""


def stored(number: float, dtype: str) -> ir.Expr:
    """A number as a stored element of logical `dtype`. Raises `Unsupported` for strings, which no number stands for."""
    if dtype == "string":
        raise Unsupported("tensors of strings are not supported by this operator")
    return element_of(np.asarray(number).astype(numpy_dtype(dtype)))


def element_of(array: np.ndarray) -> ir.Expr:
    """The first element of an array, as kernels store it."""
    bits = stored_elements(array.reshape(-1)[:1])
    return tirx.const(bits[0].item(), bits.dtype.name)


def fill(ctx: Context, shape: Sequence[IntExpr], value: np.generic) -> Value:
    """A tensor of `shape` with all elements equal to `value`."""
    number = constant(value)
    assert number.array is not None
    if not shape:
        return number
    element = element_of(number.array)
    if number.dtype in ("float16", "float32", "float64") and number.array == 0:
        element = unfolded_zero(number.dtype, number.array.item())
    return ctx.kernel("fill", lambda: compute(shape, lambda *_: element, name="fill"), dtype=number.dtype)


def arange(ctx: Context, start: Value, limit: Value, delta: Value) -> Value:
    """numpy.arange of three scalars of one dtype.

    Raises `Unsupported` for a step that is known to be 0."""
    if start.dtype.startswith("int") and start.is_known and limit.is_known and delta.is_constant:
        return _known_range(ctx, start, *(only_integer(ctx, v) for v in (start, limit, delta)))
    return _runtime_range(ctx, start, limit, delta)


def _known_range(ctx: Context, like: Value, first: IntExpr, end: IntExpr, step: IntExpr) -> Value:
    if is_plain(step) and not step:
        raise Unsupported("a step of 0")
    size = ctx.simplify(maximum(ceil_div(end - first, step) if _is_positive(step) else ceil_div(first - end, -step), 0))

    def build() -> te.Tensor:
        return compute((size,), lambda i: store(first + expr(i) * step, like.dtype), name="range")

    return ctx.kernel("range", build, dtype=like.dtype)


def _is_positive(step: IntExpr) -> bool:
    return is_plain(step) and step > 0


def _runtime_range(ctx: Context, start: Value, limit: Value, delta: Value) -> Value:
    """A range computed at run time. The count is computed like in ONNX Runtime, in float64 for floats; a step of 0
    gives an empty result."""
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


def eye(ctx: Context, shape: Sequence[IntExpr], dtype: str, diagonal: int = 0) -> Value:
    """numpy.eye: a matrix of `shape` with ones on the diagonal that is `diagonal` columns right of the main one."""
    if len(shape) != 2:
        raise Unsupported(f"a tensor of rank {len(shape)}")
    one, zero = stored(1, dtype), stored(0, dtype)

    def build() -> te.Tensor:
        return compute(shape, lambda i, j: tirx.Select(j == i + diagonal, one, zero), name="eye")

    return ctx.kernel("eye", build, dtype=dtype)


def triangle(ctx: Context, x: Value, diagonal: IntExpr = 0, *, upper: bool) -> Value:
    """numpy.triu or numpy.tril of the matrices of the last two axes of `x`: zeros below, or above, the diagonal that is
    `diagonal` columns right of the main one."""
    if x.rank < 2:
        raise Unsupported(f"a tensor of rank {x.rank}; it must hold matrices")
    k = max(-FURTHEST_DIAGONAL, min(FURTHEST_DIAGONAL, diagonal)) if is_plain(diagonal) else diagonal
    zero = stored(0, x.dtype)

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            distance = expr(index[-1]) - expr(index[-2])
            return tirx.Select(distance >= expr(k) if upper else distance <= expr(k), t(*index), zero)

        return compute(x.shape, element, name="trilu")

    return ctx.kernel("trilu", build, x, dtype=x.dtype)
