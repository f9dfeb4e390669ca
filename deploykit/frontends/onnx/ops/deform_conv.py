"""ONNX: DeformConv (`compiler.operators.deform_conv`)."""

from __future__ import annotations

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.conv import add_bias
from deploykit.compiler.operators.deform_conv import samples_of
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.integers import equal, floor_div
from deploykit.compiler.operators.matmul import wide_matmul
from deploykit.compiler.operators.sizes import require_equal
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("DeformConv")
def deform_conv(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
) -> Value:
    if x.rank != 4:
        raise Unsupported(f"a deformable convolution over {x.rank - 2} spatial axes")
    shape = windows(ctx, node, x.shape[2:], w.shape[2:])
    group, offset_groups = node.int("group", 1), node.int("offset_group", 1)
    for moves, per_tap, what in ((offset, 2, "offsets"), (mask, 1, "masks")):
        if moves is None:
            continue
        require_equal(ctx, f"the batches of the data and of the {what} differ", x.shape[0], moves.shape[0])
        channels = ctx.product([*shape.kernel, offset_groups * per_tap])
        require_equal(ctx, f"the {what} do not fit the window", moves.shape[1], channels)
        for axis, count in enumerate(shape.counts):
            require_equal(ctx, f"the {what} do not fit the windows", moves.shape[2 + axis], count)
    batch, outputs = x.shape[0], w.shape[0]
    depth, places = ctx.product(w.shape[1:]), ctx.product(shape.counts)
    ctx.require(equal(x.shape[1], w.shape[1] * group), "{} channels do not fit the weights", x.shape[1])
    samples = samples_of(ctx, shape, x, offset, mask, offset_groups)
    samples = ctx.reshape(samples, (batch, group, depth, places))
    weights = ctx.reshape(w, (1, group, ctx.simplify(floor_div(outputs, group)), depth))
    y = ctx.reshape(wide_matmul(ctx, weights, samples), (batch, outputs, *shape.counts))
    return add_bias(ctx, y, bias, x.dtype)
