"""Deformable convolution: DeformConv, as a kernel that samples and a matrix product.

Each tap of a window is read at its place plus an offset of its own, between the elements, with zeros outside, times its
mask. The samples are laid out as (batch, groups, channels * taps, windows), so that the convolution is one product.
(Source: ONNX operator DeformConv, opset 19.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.broadcast import load, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import floor_div
from deploykit.compiler.operators.sampling import inside, linear, near
from deploykit.compiler.operators.value import Value
from deploykit.compiler.operators.windows import Windows


def samples_of(ctx: Context, shape: Windows, x: Value, offset: Value, mask: Value | None, offset_groups: int) -> Value:
    """(batch, channels, *taps, *windows)."""
    taps = shape.kernel
    per_group = ctx.simplify(floor_div(x.shape[1], offset_groups))

    def build(data: te.Tensor, moves: te.Tensor, *factors: te.Tensor) -> te.Tensor:
        def sample(*index: ir.Expr) -> ir.Expr:
            n, c, tap, at = index[0], index[1], index[2:4], index[4:]
            number = (tirx.floordiv(c, per_group) * taps[0] + tap[0]) * taps[1] + tap[1]
            where = []
            for axis in range(2):
                start = at[axis] * shape.strides[axis] + tap[axis] * shape.dilations[axis] - shape.before[axis]
                move = load(moves, offset.dtype, (n, number * 2 + axis, *at))
                where.append(near(tirx.Cast(move.ty.dtype, start) + move, shape.sizes[axis]))

            def read(place: Sequence[ir.Expr]) -> ir.Expr:
                element = data(n, c, *place)
                zero = tirx.const(0, storage_dtype(x.dtype))
                return load(lambda *_: tirx.if_then_else(inside(place, shape.sizes), element, zero), x.dtype, ())

            value = linear(read, where)
            if mask is not None:
                value = value * load(factors[0], mask.dtype, (n, number, *at))
            return store(value, x.dtype)

        return compute((*x.shape[:2], *taps, *shape.counts), sample, name="samples")

    operands = [v for v in (x, offset, mask) if v is not None]
    return ctx.kernel("deform_samples", build, *operands, dtype=x.dtype)
