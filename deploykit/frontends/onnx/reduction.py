"""Reductions over axes of a tensor, as kernels that schedules recognise.

An `Axis` says how long an axis is in the result and how long the reduction's loop over it is. For axes that only a
run knows both are data dims, one of which is 1: then no index needs a condition, since its two parts can be added.
Sums of float16 and narrower floats are accumulated in float32. The reduction of nothing is the operation's identity:
0, 1, minus or plus infinity (for integers the ends of their range).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.frontends.onnx.broadcast import broadcast_index, load, store
from deploykit.frontends.onnx.integers import expr

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import IntExpr
    from deploykit.frontends.onnx.context import Context
    from deploykit.frontends.onnx.value import Value


@dataclass(frozen=True)
class Reducer:
    """`identity` gives the result for no elements, by dtype."""

    combine: Callable[[ir.Expr, ir.Expr], ir.Expr]
    identity: Callable[[str], ir.Expr]


def lowest(dtype: str) -> ir.Expr:
    """Minus infinity, or the least integer."""
    return tirx.const(float("-inf"), dtype) if dtype.startswith("float") else tirx.min_value(dtype)


def highest(dtype: str) -> ir.Expr:
    """Infinity, or the greatest integer."""
    return tirx.const(float("inf"), dtype) if dtype.startswith("float") else tirx.max_value(dtype)


def max_of(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return tirx.max(a, b)


def min_of(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return tirx.min(a, b)


SUM = Reducer(lambda a, b: a + b, lambda dtype: tirx.const(0, dtype))
PRODUCT = Reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype))
MAXIMUM = Reducer(max_of, lowest)
MINIMUM = Reducer(min_of, highest)


@dataclass(frozen=True)
class Axis:
    """`kept` is the size in the result, `None` for a reduced axis (whose size there is 1); `loop` is the size that is
    reduced, `None` for an axis that is not."""

    kept: IntExpr | None
    loop: IntExpr | None


def axes_of(shape: Sequence[IntExpr], axes: Collection[int]) -> tuple[Axis, ...]:
    """For each axis of a tensor whether it is among `axes`, which count from the front."""
    return tuple(Axis(None, n) if i in axes else Axis(n, None) for i, n in enumerate(shape))


def count_of(ctx: Context, axes: Sequence[Axis]) -> IntExpr:
    """How many elements are reduced to one."""
    return ctx.product([axis.loop for axis in axes if axis.loop is not None])


def reduce_axes(
    ctx: Context,
    name: str,
    inputs: Sequence[Value],
    axes: Sequence[Axis],
    reducer: Reducer,
    *,
    prepare: Callable[..., ir.Expr] = lambda element: element,
    finish: Callable[[ir.Expr], ir.Expr] = lambda total: total,
    keepdims: bool = True,
    dtype: str | None = None,
) -> Value:
    """`finish(reducer(prepare(element of each input)))` with elements of logical `dtype` (default: the first input's).

    The first input has the full shape, of which `axes` tells; the others broadcast to it. Without `keepdims` the axes
    that are reduced for certain are dropped."""
    dtype = dtype or inputs[0].dtype
    shape = inputs[0].shape
    kept = {
        i: 1 if axis.kept is None else axis.kept for i, axis in enumerate(axes) if keepdims or axis.kept is not None
    }
    result = tuple(kept.values())
    combine = te.comm_reducer(reducer.combine, reducer.identity, name=name)

    def build(*tensors: te.Tensor) -> te.Tensor:
        loops = {
            i: te.reduce_axis((0, expr(axis.loop)), name=f"r{i}")
            for i, axis in enumerate(axes)
            if axis.loop is not None
        }

        def element(*index: ir.Expr) -> ir.Expr:
            position = dict(zip(kept, index, strict=True))
            where = [_position(axis, position.get(i), loops.get(i)) for i, axis in enumerate(axes)]
            pairs = zip(tensors, inputs, strict=True)
            value = prepare(*(load(t, v.dtype, broadcast_index(ctx, v.shape, shape, where)) for t, v in pairs))
            return combine(value, axis=list(loops.values())) if loops else value

        total = te.compute(result, element, name=name)
        return te.compute(result, lambda *index: store(finish(total(*index)), dtype), name=f"{name}_result")

    return ctx.kernel(name, build, *inputs, dtype=dtype)


def _position(axis: Axis, index: ir.Expr | None, loop: tirx.IterVar | None) -> ir.Expr:
    """Where to read along an axis."""
    if loop is None:
        assert index is not None
        return index
    return loop.var if index is None or axis.kept is None else index + loop.var
