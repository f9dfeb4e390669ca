"""Deformable convolution: DeformConv, as a kernel that samples, followed by a matrix product.

Each tap of a window has an offset and a mask of its own. It reads the data at its position plus the offset,
interpolated, with zeros outside, and multiplies by the mask. The samples are laid out as (batch, groups, channels *
taps, windows), so that the convolution is one product.
(Source: ONNX operator DeformConv, opset 19.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import equal, floor_div
from deploykit.compiler.operators.building.sizes import require_equal
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import Windows
from deploykit.compiler.operators.conv import add_bias
from deploykit.compiler.operators.images.sampling import inside, linear, near
from deploykit.compiler.operators.matmul import wide_matmul


def deform_conv(
    ctx: Context,
    x: Value,
    w: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    *,
    windows: Windows,
    group: int = 1,
    offset_groups: int = 1,
) -> Value:
    """Convolution of `x` (N, C, h, w) with `w` (M, C / group, *taps) plus `bias` (M,) over `windows`.

    `offset` is (N, offset_groups * taps * 2, *windows), `mask` (N, offset_groups * taps, *windows). The groups of
    offsets apply to equal numbers of channels. Raises `Unsupported` unless there are two spatial axes."""
    if x.rank != 4:
        raise Unsupported(f"a deformable convolution over {x.rank - 2} spatial axes")
    for moves, per_tap, what in ((offset, 2, "offsets"), (mask, 1, "masks")):
        if moves is None:
            continue
        require_equal(ctx, f"the batches of the data and of the {what} differ", x.shape[0], moves.shape[0])
        channels = ctx.product([*windows.kernel, offset_groups * per_tap])
        require_equal(ctx, f"the {what} do not fit the window", moves.shape[1], channels)
        for axis, count in enumerate(windows.counts):
            require_equal(ctx, f"the {what} do not fit the windows", moves.shape[2 + axis], count)
    batch, outputs = x.shape[0], w.shape[0]
    depth, places = ctx.product(w.shape[1:]), ctx.product(windows.counts)
    ctx.require(equal(x.shape[1], w.shape[1] * group), "{} channels do not fit the weights", x.shape[1])
    samples = _samples(ctx, windows, x, offset, mask, offset_groups)
    samples = ctx.reshape(samples, (batch, group, depth, places))
    weights = ctx.reshape(w, (1, group, ctx.simplify(floor_div(outputs, group)), depth))
    y = ctx.reshape(wide_matmul(ctx, weights, samples), (batch, outputs, *windows.counts))
    return add_bias(ctx, y, bias, x.dtype)


def _samples(ctx: Context, shape: Windows, x: Value, offset: Value, mask: Value | None, offset_groups: int) -> Value:
    """The samples, (batch, channels, *taps, *windows)."""
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
