"""Transposed convolution: ConvTranspose.

Per spatial axis the full result has `(n - 1) * stride + (kernel - 1) * dilation + 1` elements, of which the output is
a stretch that starts at the padding before; it may reach past the end, where it is zero. A stretch known at import
goes into the attributes of `relax.nn.conv{1,2,3}d_transpose`; another one is cut out of the full result by a kernel.

* `pads` and `output_padding` give the stretch directly;
* `output_shape` and `auto_pad` give its size, and the rest of the full result (with `output_padding`) is split in two
  halves, of which the larger comes last for `SAME_UPPER` and first otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.broadcast import compute_dtype
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.conv import add_bias
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.integers import equal, is_plain, maximum
from deploykit.compiler.operators.value import Value
from deploykit.compiler.operators.windows import check_reach, pad, split
from deploykit.frontends.onnx.attributes import AUTO_PADS, axis_attribute
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_TRANSPOSES = {
    1: relax.op.nn.conv1d_transpose,
    2: relax.op.nn.conv2d_transpose,
    3: relax.op.nn.conv3d_transpose,
}


@operator("ConvTranspose")
def conv_transpose(ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    rank = x.rank - 2
    if rank not in _TRANSPOSES:
        raise Unsupported(f"a convolution over {rank} spatial axes")
    ctx.require(equal(x.shape[1], w.shape[0]), "the data has {} channels, the weights fit {}", x.shape[1], w.shape[0])
    strides = axis_attribute(node, "strides", rank, 1)
    dilations = axis_attribute(node, "dilations", rank, 1)
    check_reach(w.shape[2:], strides, dilations, node.ints("pads", []))
    full = [
        ctx.simplify((n - 1) * s + (k - 1) * d + 1)
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    starts, sizes = _stretch(ctx, node, x.shape[2:], full)
    dropped = [ctx.simplify(f - b - n) for f, b, n in zip(full, starts, sizes, strict=True)]
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
        strides=strides,
        padding=[*starts, *(max(e, 0) for e in ends)] if fixed else [0] * (2 * rank),
        output_padding=[max(-e, 0) for e in ends] if fixed else [0] * rank,
        dilation=dilations,
        groups=node.int("group", 1),
        out_dtype=wide,
    )
    channels = ctx.simplify(w.shape[1] * node.int("group", 1))
    y = ctx.bind(product, wide, (x.shape[0], channels, *(sizes if fixed else full)))
    if not fixed:
        y = pad(ctx, y, [ctx.simplify(0 - b) for b in starts], sizes)
    return add_bias(ctx, y, bias, dtype)


def _stretch(
    ctx: Context, node: Node, inputs: Sequence[IntExpr], full: Sequence[IntExpr]
) -> tuple[list[IntExpr], list[IntExpr]]:
    """Start and size of the output within the full result, per axis."""
    rank = len(full)
    extra = axis_attribute(node, "output_padding", rank, 0)
    automatic = node.choice("auto_pad", AUTO_PADS, "NOTSET")
    sizes: list[IntExpr]
    if node.has("output_shape"):
        sizes = list(node.ints("output_shape")[-rank:])
    elif automatic.startswith("SAME"):
        strides = axis_attribute(node, "strides", rank, 1)
        sizes = [ctx.simplify(n * s) for n, s in zip(inputs, strides, strict=True)]
    else:
        pads = [0] * (2 * rank) if automatic == "VALID" else axis_attribute(node, "pads", 2 * rank, 0)
        starts, ends = pads[:rank], pads[rank:]
        sizes = [ctx.simplify(f + o - b - e) for f, o, b, e in zip(full, extra, starts, ends, strict=True)]
        for axis, size in enumerate(sizes):
            ctx.require(size >= 0, f"spatial axis {axis} of size {{}} is too small", inputs[axis])
        return list(starts), sizes
    rest = [ctx.simplify(maximum(f + o - n, 0)) for f, o, n in zip(full, extra, sizes, strict=True)]
    starts_of, _ = split(ctx, rest, lower=automatic != "SAME_UPPER")
    return starts_of, sizes
