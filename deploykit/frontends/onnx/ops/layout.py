"""Operators that move elements without computing: Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Concat, Expand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.program.ir import IntExpr
from deploykit.frontends.onnx.broadcast import broadcast_index, broadcast_shapes
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import Unsupported, operator
from deploykit.frontends.onnx.value import Value, constant


def transpose(ctx: Context, x: Value, order: Sequence[int]) -> Value:
    """numpy.transpose; constants are transposed at import."""
    if x.array is not None:
        return constant(np.ascontiguousarray(x.array.transpose(order)))
    if list(order) == list(range(x.rank)):
        return x
    shape = [x.shape[axis] for axis in order]

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            source: list[ir.Expr] = [index[0]] * x.rank
            for position, axis in enumerate(order):
                source[axis] = index[position]
            return t(*source)

        return te.compute(shape, element, name="transpose")

    result = ctx.kernel("transpose", build, x, dtype=x.dtype)
    assert isinstance(result, Value)
    return result


@operator("Transpose")
def transpose_operator(ctx: Context, node: Node, x: Value) -> Value:
    return transpose(ctx, x, node.ints("perm", list(range(x.rank))[::-1]))


@operator("Reshape")
def reshape(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    sizes = ctx.ints(shape, minimum=-1)
    if node.int("allowzero", 0):
        sizes = list(sizes)
    else:
        sizes = [_copy_zero(ctx, n, x.shape[i]) if i < x.rank else n for i, n in enumerate(sizes)]
    return ctx.reshape(x, infer_minus_one(ctx, x, sizes))


def _copy_zero(ctx: Context, size: IntExpr, source: IntExpr) -> IntExpr:
    if isinstance(size, int):
        return source if size == 0 else size
    return size if ctx.proves(size > 0) else ctx.simplify(tirx.Select(size == 0, _expr(source), size))


def infer_minus_one(ctx: Context, x: Value, sizes: Sequence[IntExpr]) -> list[IntExpr]:
    """Replace a -1 (which may only show at run time) by what the element count leaves."""
    total = ctx.product(x.shape)
    unknown = [i for i, n in enumerate(sizes) if isinstance(n, int) and n == -1]
    maybe = [i for i, n in enumerate(sizes) if not isinstance(n, int) and not ctx.proves(n >= 0)]
    if unknown:
        rest = ctx.product([n for i, n in enumerate(sizes) if i != unknown[0]])
        filled = ctx.simplify(_expr(total) // _expr(rest)) if not _zero(rest) else 0
        return [filled if i == unknown[0] else n for i, n in enumerate(sizes)]
    if not maybe:
        return list(sizes)
    known = ctx.product([tirx.max(n, 1) if i in maybe else n for i, n in enumerate(sizes)])
    rest = ctx.simplify(_expr(total) // tirx.max(_expr(known), 1))
    return [ctx.simplify(tirx.Select(n == -1, _expr(rest), n)) if i in maybe else n for i, n in enumerate(sizes)]


def _zero(size: IntExpr) -> bool:
    return isinstance(size, int) and size == 0


def _expr(size: IntExpr) -> ir.Expr:
    return tirx.IntImm("int64", size) if isinstance(size, int) else size


@operator("Shape")
def shape_of(ctx: Context, node: Node, x: Value) -> Value:
    return ctx.known(list(x.shape)[slice(node.int("start", 0), node.int("end", x.rank))])


@operator("Size")
def size_of(ctx: Context, node: Node, x: Value) -> Value:
    return ctx.known(ctx.product(x.shape))


@operator("Constant")
def constant_operator(ctx: Context, node: Node) -> Value:
    raise Unsupported("a constant that is not a dense tensor of numbers")


@operator("Flatten")
def flatten(ctx: Context, node: Node, x: Value) -> Value:
    axis = node.int("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    return ctx.reshape(x, (ctx.product(x.shape[:axis]), ctx.product(x.shape[axis:])))


@operator("Concat")
def concat(ctx: Context, node: Node, *inputs: Value) -> Value:
    axis = node.int("axis", 1) % inputs[0].rank
    sizes = [v.shape[axis] for v in inputs]
    total: IntExpr = 0
    starts: list[IntExpr] = []
    for size in sizes:
        starts.append(total)
        total = ctx.simplify(total + size)
    for other in inputs[1:]:
        for i, (m, n) in enumerate(zip(inputs[0].shape, other.shape, strict=True)):
            if i != axis and not ctx.equal(m, n):
                ctx.require(_expr(m) == _expr(n), f"axis {i} of the inputs differs: {{}} and {{}}", m, n)
    shape = [total if i == axis else n for i, n in enumerate(inputs[0].shape)]

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            def source(k: int) -> ir.Expr:
                return tensors[k](*[i - starts[k] if a == axis else i for a, i in enumerate(index)])

            result = source(len(tensors) - 1)
            for k in reversed(range(len(tensors) - 1)):
                result = tirx.if_then_else(index[axis] < starts[k + 1], source(k), result)
            return result

        return te.compute(shape, element, name="concat")

    result = ctx.kernel("concat", build, *inputs, dtype=inputs[0].dtype)
    assert isinstance(result, Value)
    return result


def _axes(ctx: Context, node: Node, operand: Value | None, rank: int) -> list[int] | None:
    if operand is None and not node.has("axes"):
        return None
    axes = ctx.ints(operand) if operand is not None else node.ints("axes")
    if not all(isinstance(a, int) for a in axes):
        raise Unsupported("axes that are computed at run time")
    return [int(a) % rank for a in axes]  # type: ignore[call-overload]


@operator("Squeeze")
def squeeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    where = _axes(ctx, node, axes, x.rank)
    if where is None:
        where = [i for i, n in enumerate(x.shape) if isinstance(n, int) and n == 1]
    for i in where:
        ctx.require(x.shape[i] == 1, f"axis {i} to squeeze has size {{}}", x.shape[i])
    return ctx.reshape(x, [n for i, n in enumerate(x.shape) if i not in where])


@operator("Unsqueeze")
def unsqueeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    count = len(node.ints("axes")) if axes is None else ctx.product(axes.shape)
    assert isinstance(count, int)
    where = _axes(ctx, node, axes, x.rank + count) or []
    sizes = iter(x.shape)
    return ctx.reshape(x, [1 if i in where else next(sizes) for i in range(x.rank + count)])


def expand(ctx: Context, x: Value, shape: Sequence[IntExpr]) -> Value:
    """Broadcast `x` against `shape`."""
    target = broadcast_shapes(ctx, x.shape, shape)
    if all(ctx.equal(a, b) for a, b in zip(target, x.shape, strict=False)) and len(target) == x.rank:
        return x
    build = lambda t: te.compute(target, lambda *i: t(*broadcast_index(ctx, x.shape, target, i)), name="expand")  # noqa: E731
    result = ctx.kernel("expand", build, x, dtype=x.dtype)
    assert isinstance(result, Value)
    return result


@operator("Expand")
def expand_operator(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    return expand(ctx, x, ctx.ints(shape, minimum=0))
