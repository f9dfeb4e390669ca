"""ONNX: Transpose, Reshape, Flatten, Shape, Size, Constant, Squeeze, Unsqueeze (`compiler.operators.layout`)."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.integers import equal, from_end, is_plain, negate
from deploykit.compiler.operators.layout import (
    infer_minus_one,
    reshape_at_run_time,
    reshape_to,
    squeezed_shape,
    transpose,
    unless_of,
    unsqueezed_shape,
)
from deploykit.compiler.operators.sizes import checked_reshape
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Transpose")
def transpose_operator(ctx: Context, node: Node, x: Value) -> Value:
    return transpose(ctx, x, node.axes(x.rank, reversed(range(x.rank)), "perm"))


@operator("Reshape")
def reshape(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    copies = not node.int("allowzero", 0)
    if not shape.is_known:
        return reshape_at_run_time(ctx, x, shape, copies=copies)
    sizes = ctx.ints(shape)
    if copies:
        sizes = [unless_of(ctx, n, 0, x.shape[i]) if i < x.rank else n for i, n in enumerate(sizes)]
    return checked_reshape(ctx, x, infer_minus_one(ctx, x, sizes))


@operator("Flatten")
def flatten(ctx: Context, node: Node, x: Value) -> Value:
    axis = node.int("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise Unsupported(f"axis {axis} is outside of a tensor of rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return ctx.reshape(x, (ctx.product(x.shape[:axis]), ctx.product(x.shape[axis:])))


@operator("Shape")
def shape_of(ctx: Context, node: Node, x: Value) -> Value:
    return ctx.known(list(x.shape)[slice(node.int("start", 0), node.int("end", x.rank))])


@operator("Size")
def size_of(ctx: Context, node: Node, x: Value) -> Value:
    return ctx.known(ctx.product(x.shape))


@operator("Constant")
def constant_operator(ctx: Context, node: Node) -> Value:
    raise Unsupported("a constant that is not a dense tensor of numbers")


def axes_operand(ctx: Context, node: Node, operand: Value | None, rank: int) -> list[IntExpr] | None:
    """Axes given as an operand or an attribute, counted from the front; `None` when not given.

    Axes computed at run time come as expressions. Raises `Unsupported` for constant axes out of range."""
    if operand is None and not node.has("axes"):
        return None
    axes: Sequence[IntExpr] = (
        ctx.ints(operand, minimum=-rank, maximum=rank - 1, hint="axis") if operand is not None else node.ints("axes")
    )
    for axis in axes:
        if is_plain(axis) and not -rank <= axis < rank:
            raise Unsupported(f"axis {axis} is outside of a tensor of rank {rank}")
    return [ctx.simplify(from_end(axis, rank)) for axis in axes]


@operator("Squeeze")
def squeeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    if axes is not None and not axes.is_known:
        return reshape_to(ctx, x, squeezed_shape(ctx, x, axes, x.rank - ctx.length(axes)))
    where = axes_operand(ctx, node, axes, x.rank) or _unit_axes(ctx, node, x)
    for i in where:
        ctx.require(equal(x.shape[i], 1), f"axis {i} to squeeze has size {{}}", x.shape[i])
    return ctx.reshape(x, [n for i, n in enumerate(x.shape) if i not in where])


def _unit_axes(ctx: Context, node: Node, x: Value) -> list[IntExpr]:
    """The axes of size 1. A symbolic size is taken as larger, which is required at run time, unless the declared
    rank of the result says that it is 1."""
    ones: list[IntExpr] = [i for i, n in enumerate(x.shape) if is_plain(n) and n == 1]
    symbolic = [i for i, n in enumerate(x.shape) if not is_plain(n)]
    declared = node.outputs[0].shape
    if declared is not None and len(declared) == x.rank - len(ones) - len(symbolic):
        return [*ones, *symbolic]
    for i in symbolic:
        ctx.require(negate(equal(x.shape[i], 1)), f"axis {i} has size 1, so that the rank of the result would change")
    return ones


@operator("Unsqueeze")
def unsqueeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    count = len(node.ints("axes")) if axes is None else ctx.length(axes)
    rank = x.rank + count
    if axes is not None and not axes.is_known:
        return reshape_to(ctx, x, unsqueezed_shape(ctx, x, axes, rank))
    where = axes_operand(ctx, node, axes, rank) or []
    if len(set(where)) != count:
        raise Unsupported(f"the axes {where} are not distinct")
    sizes = iter(x.shape)
    return ctx.reshape(x, [1 if i in where else next(sizes) for i in range(rank)])
