"""Col2Im: each element of the image is the sum of the block elements that overlap it.

(Source: ONNX operator Col2Im, opset 18.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.integers import clamp, expr, floor_div
from deploykit.compiler.operators.building.sizes import quotient_of_products, require_equal
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import check_reach


def col2im(
    ctx: Context,
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> Value:
    """The image (N, channels, *image_shape) of columns `x` (N, channels * elements of a block, blocks).

    `strides` and `dilations` have one entry per axis of the image; `pads` is all the starts, then all the ends.
    Raises `Unsupported` for operands of other ranks."""
    image = ctx.ints(image_shape, minimum=1, hint="image")
    block = ctx.ints(block_shape, minimum=1, maximum=x.shape[1], hint="block")
    rank = len(image)
    if x.rank != 3 or len(block) != rank:
        raise Unsupported(f"an image of {rank} axes from blocks of {len(block)} axes in a tensor of rank {x.rank}")
    check_reach(block, strides, dilations, pads)
    counts: list[IntExpr] = []
    for i in range(rank):
        extent = image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1
        counts.append(ctx.simplify(floor_div(extent, strides[i]) + 1))
    channels = quotient_of_products(ctx, [x.shape[1]], block)
    require_equal(ctx, "the columns do not fill blocks", x.shape[1], ctx.product([channels, *block]))
    require_equal(ctx, "there are not as many columns as blocks", x.shape[2], ctx.product(counts))
    wide = compute_dtype(x.dtype)

    def build(t: te.Tensor) -> list[te.Tensor] | te.Tensor:
        axes = [reduce_axis(n, name=f"k{i}") for i, n in enumerate(block)]

        def element(batch: ir.Expr, channel: ir.Expr, *place: ir.Expr) -> ir.Expr:
            row, column, found = expr(channel), expr(0), tirx.const(value=True, dtype="bool")
            for i, axis in enumerate(axes):
                start = expr(place[i]) + pads[i] - expr(axis.var) * dilations[i]
                number = tirx.floordiv(start, expr(strides[i]))
                fits = tirx.all(start >= 0, tirx.EQ(start, number * strides[i]), number < counts[i])
                found = tirx.And(found, fits)
                row, column = row * block[i] + expr(axis.var), column * counts[i] + clamp(number, 0, counts[i] - 1)
            value = tirx.Cast(wide, load(t, x.dtype, [batch, row, column]))
            return te.sum(tirx.if_then_else(found, value, tirx.const(0, wide)), axis=axes)

        total = compute((x.shape[0], channels, *image), element, name="col2im")
        if str(total.dtype) == x.dtype:
            return total
        return compute(total.shape, lambda *index: store(total(*index), x.dtype), name="rounded")

    return ctx.kernel("col2im", build, x, dtype=x.dtype)
