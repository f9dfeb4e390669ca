"""Convolutions: Conv.

`relax.nn.conv{1,2,3}d` takes padding that is known at import. Other padding becomes a kernel that pads, followed by a
convolution without padding. float16 is accumulated in float32, and the bias is added in float32. A convolution of
dequantised operands is an integer one if possible (`dequantized`). (Source: ONNX operator Conv.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import equal
from deploykit.compiler.operators.building.sizes import require_equal, require_rank
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import Windows, window_count, zero_padded
from deploykit.compiler.operators.quantized.dequantized import quantized_conv

_CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}


def convolution(ctx: Context, x: Value, w: Value, bias: Value | None, windows: Windows, *, group: int = 1) -> Value:
    """Convolution of `x` (N, C, ...) with `w` (M, C / group, ...) over `windows`, plus `bias` (M,), in the dtype of
    `x`. If both operands were dequantised, it is a convolution of integers if possible."""
    exact = quantized_conv(ctx, x, w, bias, windows, group)
    if exact is not None:
        return exact
    y = conv(
        ctx,
        x,
        w,
        strides=windows.strides,
        pads=(*windows.before, *windows.after),
        dilations=windows.dilations,
        group=group,
        counts=windows.counts,
    )
    return add_bias(ctx, y, bias, x.dtype)


def conv(
    ctx: Context,
    x: Value,
    w: Value,
    *,
    strides: Sequence[int],
    pads: Sequence[IntExpr],
    dilations: Sequence[int],
    group: int = 1,
    counts: Sequence[IntExpr] | None = None,
) -> Value:
    """Convolution of `x` (N, C, ...) with `w` (M, C / group, ...) of the same dtype. Sums and result have this dtype,
    or float32 for float16 and narrower floats.

    `strides` and `dilations` have one entry per spatial axis. `pads` is all the starts, then all the ends. `counts` are
    the sizes of the result, in the form that later shapes should have. Raises `Unsupported` unless there are one to
    three spatial axes."""
    rank = x.rank - 2
    if rank not in _CONVOLUTIONS:
        raise Unsupported(f"a convolution over {rank} spatial axes")
    channels = w.shape[1] * group
    ctx.require(equal(x.shape[1], channels), "the data has {} channels, the weights fit {}", x.shape[1], channels)
    wide = compute_dtype(x.dtype)
    if wide != storage_dtype(x.dtype) and x.dtype != "float16":
        x, w = ctx.cast(x, wide), ctx.cast(w, wide)
    before, after = pads[:rank], pads[rank:]
    extents = [ctx.simplify((k - 1) * d + 1) for k, d in zip(w.shape[2:], dilations, strict=True)]
    if counts is None:
        axes = zip(x.shape[2:], extents, strides, zip(before, after, strict=True), strict=True)
        counts = [window_count(ctx, *axis) for axis in axes]
    fixed = [p for p in pads if isinstance(p, int) and p >= 0]
    if len(fixed) < len(pads):
        covered = [ctx.simplify((n - 1) * s + e) for n, s, e in zip(counts, strides, extents, strict=True)]
        x, fixed = zero_padded(ctx, x, before, covered), [0] * len(pads)
    product = _CONVOLUTIONS[rank](
        ctx.tensor(x),
        ctx.tensor(w),
        strides=list(strides),
        padding=fixed,
        dilation=list(dilations),
        groups=group,
        out_dtype=wide,
    )
    return ctx.bind(product, wide, (x.shape[0], w.shape[0], *counts))


def add_bias(ctx: Context, y: Value, bias: Value | None, dtype: str) -> Value:
    """`y` (N, M, ...) plus `bias` (M,), rounded to `dtype`."""
    if bias is None:
        return ctx.cast(y, dtype)
    require_rank(ctx, bias, 1)
    require_equal(ctx, "biases and channels differ in number", bias.shape[0], y.shape[1])
    column = ctx.reshape(bias, (bias.shape[0], *[1] * (y.rank - 2)))
    return elementwise(ctx, "bias", lambda a, b: a + b, y, column, dtype=dtype)
