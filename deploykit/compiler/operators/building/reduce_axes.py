"""Reductions over axes of a tensor, as kernels that schedules recognise.

Sums of float16 and narrower floats are accumulated in float32. The reduction of no elements is the operation's
identity: 0, 1, or minus or plus infinity (the ends of the range for integers). The maximum or minimum of elements of
which one is NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import broadcast_index
from deploykit.compiler.operators.building.conversion import load, store
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.tir.extrema import maximum, minimum

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value


@dataclass(frozen=True)
class Reducer:
    """A reduction. `identity` gives its result for no elements, by dtype."""

    combine: Callable[[ir.Expr, ir.Expr], ir.Expr]
    identity: Callable[[str], ir.Expr]


def lowest(dtype: str) -> ir.Expr:
    """Minus infinity, or the least integer."""
    return tirx.const(float("-inf"), dtype) if dtype.startswith("float") else tirx.min_value(dtype)


def highest(dtype: str) -> ir.Expr:
    """Infinity, or the greatest integer."""
    return tirx.const(float("inf"), dtype) if dtype.startswith("float") else tirx.max_value(dtype)


SUM = Reducer(lambda a, b: a + b, lambda dtype: tirx.const(0, dtype))
PRODUCT = Reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype))
MAXIMUM = Reducer(maximum, lowest)
MINIMUM = Reducer(minimum, highest)


def count_of(ctx: Context, shape: Sequence[IntExpr], axes: Collection[int]) -> IntExpr:
    """The number of elements that are reduced to one."""
    return ctx.product([size for i, size in enumerate(shape) if i in axes])


def reduce_axes(
    ctx: Context,
    name: str,
    inputs: Sequence[Value],
    axes: Collection[int],
    reducer: Reducer,
    *,
    prepare: Callable[..., ir.Expr] = lambda element: element,
    finish: Callable[[ir.Expr], ir.Expr] = lambda total: total,
    keepdims: bool = True,
    dtype: str | None = None,
) -> Value:
    """`finish(reducer(prepare(element of each input)))`, of logical `dtype` (default: that of the first input).

    `axes` of the first input, counted from the front, are reduced. The other inputs broadcast to it."""
    dtype = dtype or inputs[0].dtype
    shape = inputs[0].shape
    kept = [i for i in range(len(shape)) if keepdims or i not in axes]
    result = [1 if i in axes else shape[i] for i in kept]
    combine = te.comm_reducer(reducer.combine, reducer.identity, name=name)

    def build(*tensors: te.Tensor) -> te.Tensor:
        loops = {i: reduce_axis(shape[i], name=f"r{i}") for i in sorted(axes)}

        def element(*index: ir.Expr) -> ir.Expr:
            position = dict(zip(kept, index, strict=True)) | {i: loop.var for i, loop in loops.items()}
            where = [position[i] for i in range(len(shape))]
            pairs = zip(tensors, inputs, strict=True)
            value = prepare(*(load(t, v.dtype, broadcast_index(ctx, v.shape, shape, where)) for t, v in pairs))
            return combine(value, axis=list(loops.values())) if loops else value

        total = compute(result, element, name=name)
        return compute(result, lambda *index: store(finish(total(*index)), dtype), name=f"{name}_result")

    return ctx.kernel(name, build, *inputs, dtype=dtype)
