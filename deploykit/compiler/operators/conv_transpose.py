"""Transposed convolution: ConvTranspose.

Per spatial axis, the full result has `(n - 1) * stride + (kernel - 1) * dilation + 1` elements. The output is a range
of it that starts after the padding in front; it may extend past the end, where it is zero. A range known at import goes
into the attributes of `relax.nn.conv{1,2,3}d_transpose`; any other range is cut out of the full result by a kernel.

* `pads` and `extra` (elements past the end) give the range directly.
* `sizes` gives the size of the range; `SAME_UPPER` and `SAME_LOWER` instead of `pads` stand for a size of `n * stride`.
  The rest of the full result (with `extra`) is split in two halves. The larger half comes last for `SAME_UPPER`, else
  first.

(Source: ONNX operator ConvTranspose.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import equal, floor_mod, is_plain, maximum
from deploykit.compiler.operators.building.sizes import require_rank
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import check_reach, split, zero_padded
from deploykit.compiler.operators.conv import add_bias

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.windows import Same

_TRANSPOSES = {
    1: relax.op.nn.conv1d_transpose,
    2: relax.op.nn.conv2d_transpose,
    3: relax.op.nn.conv3d_transpose,
}


def conv_transpose(
    ctx: Context,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int] | Same,
    extra: Sequence[int],
    sizes: Sequence[int] | None = None,
    group: int = 1,
) -> Value:
    """Transposed convolution of `x` (N, C, ...) with `w` (C, M / group, ...) plus `bias` (M,), in the dtype of `x`.

    `pads` is all the starts, then all the ends; the other sequences have one entry per spatial axis. `sizes` are those
    of the result; with them, `pads` only says how the rest is split. Raises `Unsupported` unless there are one to three
    spatial axes."""
    rank = x.rank - 2
    if rank not in _TRANSPOSES:
        raise Unsupported(f"a convolution over {rank} spatial axes")
    require_rank(ctx, w, x.rank)
    if group < 1:
        raise Unsupported(f"{group} groups of channels")
    ctx.require(equal(floor_mod(x.shape[1], group), 0), f"{{}} channels cannot form {group} groups", x.shape[1])
    ctx.require(equal(x.shape[1], w.shape[0]), "the data has {} channels, the weights fit {}", x.shape[1], w.shape[0])
    check_reach(w.shape[2:], strides, dilations, () if isinstance(pads, str) else pads)
    full = [
        ctx.simplify((n - 1) * s + (k - 1) * d + 1)
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    starts, shape = _stretch(ctx, x.shape[2:], full, strides, pads, extra, sizes)
    dropped = [ctx.simplify(f - b - n) for f, b, n in zip(full, starts, shape, strict=True)]
    dtype = x.dtype
    wide = compute_dtype(dtype)
    if wide != storage_dtype(dtype) and dtype != "float16":
        x, w = ctx.cast(x, wide), ctx.cast(w, wide)
    fixed = all(
        is_plain(b) and b >= 0 and is_plain(e) and e > -s for b, e, s in zip(starts, dropped, strides, strict=True)
    )
    ends = [e for e in dropped if is_plain(e)]
    product = _TRANSPOSES[rank](
        ctx.tensor(x),
        ctx.tensor(w),
        strides=list(strides),
        padding=[*starts, *(max(e, 0) for e in ends)] if fixed else [0] * (2 * rank),
        output_padding=[max(-e, 0) for e in ends] if fixed else [0] * rank,
        dilation=list(dilations),
        groups=group,
        out_dtype=wide,
    )
    channels = ctx.simplify(w.shape[1] * group)
    y = ctx.bind(product, wide, (x.shape[0], channels, *(shape if fixed else full)))
    if not fixed:
        y = zero_padded(ctx, y, [ctx.simplify(0 - b) for b in starts], shape)
    return add_bias(ctx, y, bias, dtype)


def _stretch(
    ctx: Context,
    inputs: Sequence[IntExpr],
    full: Sequence[IntExpr],
    strides: Sequence[int],
    pads: Sequence[int] | Same,
    extra: Sequence[int],
    wanted: Sequence[int] | None,
) -> tuple[list[IntExpr], list[IntExpr]]:
    """The start and the size of the output within the full result, per axis."""
    rank = len(full)
    sizes: list[IntExpr]
    if wanted is not None:
        sizes = list(wanted)
    elif isinstance(pads, str):
        sizes = [ctx.simplify(n * s) for n, s in zip(inputs, strides, strict=True)]
    else:
        starts, ends = pads[:rank], pads[rank:]
        sizes = [ctx.simplify(f + o - b - e) for f, o, b, e in zip(full, extra, starts, ends, strict=True)]
        for axis, size in enumerate(sizes):
            ctx.require(size >= 0, f"spatial axis {axis} of size {{}} is too small", inputs[axis])
        return list(starts), sizes
    rest = [ctx.simplify(maximum(f + o - n, 0)) for f, o, n in zip(full, extra, sizes, strict=True)]
    halves, _ = split(ctx, rest, lower=pads != "SAME_UPPER")
    return halves, sizes
