"""Operators that join or repeat tensors: `concat`, `expand`, `tile`.

(Source: ONNX operators Concat, Expand, Tile.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.broadcast import broadcast_index, broadcast_shapes
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import is_plain
from deploykit.compiler.operators.building.sizes import require_equal
from deploykit.compiler.operators.building.value import Value, constant


def concat(ctx: Context, inputs: Sequence[Value], axis: int) -> Value:
    """numpy.concatenate of values of the same rank along `axis`, counted from the front. Empty values are left out.

    Raises `Unsupported` if ranks differ. The other axes must agree."""
    ranks = {v.rank for v in inputs}
    if len(ranks) != 1:
        raise Unsupported(f"inputs of different ranks: {sorted(ranks)}")
    if all(v.array is not None for v in inputs):
        return constant(np.concatenate([v.array for v in inputs if v.array is not None], axis))
    parts = [v for v in inputs if not (is_plain(v.shape[axis]) and v.shape[axis] == 0)] or list(inputs[:1])
    for other in parts[1:]:
        for i, (m, n) in enumerate(zip(parts[0].shape, other.shape, strict=True)):
            if i != axis:
                require_equal(ctx, f"the inputs differ in axis {i}", m, n)
    if len(parts) == 1:
        return parts[0]
    starts: list[IntExpr] = [0]
    for part in parts:
        starts.append(ctx.simplify(starts[-1] + part.shape[axis]))
    shape = [starts[-1] if i == axis else n for i, n in enumerate(parts[0].shape)]

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            def source(k: int) -> ir.Expr:
                return tensors[k](*[i - starts[k] if a == axis else i for a, i in enumerate(index)])

            result = source(len(tensors) - 1)
            for k in reversed(range(len(tensors) - 1)):
                result = tirx.if_then_else(index[axis] < starts[k + 1], source(k), result)
            return result

        return compute(shape, element, name="concat")

    return ctx.kernel("concat", build, *parts, dtype=inputs[0].dtype)


def expand(ctx: Context, x: Value, shape: Sequence[IntExpr]) -> Value:
    """`x` broadcast against `shape`; where `shape` has size 1, the size of `x` stays."""
    return repeated(ctx, x, broadcast_shapes(ctx, x.shape, shape))


def repeated(ctx: Context, x: Value, target: Sequence[IntExpr]) -> Value:
    """`x` broadcast to the shape `target`."""
    if len(target) == x.rank and all(ctx.equal(a, b) for a, b in zip(target, x.shape, strict=True)):
        return x

    def build(t: te.Tensor) -> te.Tensor:
        return compute(target, lambda *i: t(*broadcast_index(ctx, x.shape, target, i)), name="expand")

    return ctx.kernel("expand", build, x, dtype=x.dtype)


def tile(ctx: Context, x: Value, counts: Sequence[IntExpr]) -> Value:
    """numpy.tile: `x` repeated `counts[i]` times along each axis `i`.

    Each repeated axis is computed as two axes, copy and position, which a reshape joins. This avoids divisions."""
    if len(counts) != x.rank:
        raise Unsupported(f"{len(counts)} repeats for a tensor of rank {x.rank}")
    repeats = [not (is_plain(count) and count == 1) for count in counts]
    shape: list[IntExpr] = []
    for again, count, size in zip(repeats, counts, x.shape, strict=True):
        shape.extend([count, size] if again else [size])
    positions = [i + sum(repeats[: i + 1]) for i in range(x.rank)]
    if not any(repeats):
        return x

    def build(t: te.Tensor) -> te.Tensor:
        return compute(shape, lambda *index: t(*(index[p] for p in positions)), name="tile")

    tiled = ctx.kernel("tile", build, x, dtype=x.dtype)
    return ctx.reshape(tiled, [ctx.product([count, size]) for count, size in zip(counts, x.shape, strict=True)])
