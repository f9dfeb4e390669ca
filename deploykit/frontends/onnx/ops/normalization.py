"""ONNX: LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization, MeanVarianceNormalization,
LpNormalization, LRN (`compiler.operators.normalization`)."""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import compute_dtype, elementwise, load, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import factor, like
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute, reduce_axis
from deploykit.compiler.operators.integers import equal, floor_div, floor_mod
from deploykit.compiler.operators.normalization import (
    apply,
    inverse_deviation,
    mean_of,
    mean_of_terms,
    normalise,
    power_of,
)
from deploykit.compiler.operators.reduce_axes import SUM, reduce_axes
from deploykit.compiler.operators.sizes import checked_reshape
from deploykit.compiler.operators.value import Value
from deploykit.compiler.operators.windows import MOST_TAPS
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.elementwise import UNARY
from deploykit.frontends.onnx.registry import operator


def _trailing(node: Node, x: Value) -> range:
    """All axes from attribute `axis` on."""
    return range(node.axis(x.rank, default=-1), x.rank)


@operator("LayerNormalization")
def layer_normalization(
    ctx: Context, node: Node, x: Value, scale: Value, shift: Value | None = None
) -> tuple[Value, ...]:
    axes = _trailing(node, x)
    mean = mean_of(ctx, x, axes)
    inverse = inverse_deviation(ctx, x, mean, axes, node.float("epsilon", 1e-5))
    y = apply(ctx, "layer_normalization", x, mean, inverse, *(v for v in (scale, shift) if v is not None))
    stash = node.float_dtype("stash_type", "float32")
    return y, ctx.cast(mean, stash), ctx.cast(inverse, stash)


@operator("RMSNormalization")
def rms_normalization(ctx: Context, node: Node, x: Value, scale: Value) -> Value:
    epsilon = node.float("epsilon", 1e-5)
    inverse = mean_of_terms(
        ctx,
        "inverse_root_mean_square",
        [x],
        _trailing(node, x),
        lambda v: v * v,
        lambda mean: like(mean, 1) / tirx.sqrt(mean + like(mean, epsilon)),
    )
    return elementwise(ctx, "rms_normalization", lambda v, s, g: v * s * tirx.Cast(v.ty.dtype, g), x, inverse, scale)


@operator("InstanceNormalization")
def instance_normalization(ctx: Context, node: Node, x: Value, scale: Value, shift: Value) -> Value:
    affine = [ctx.reshape(v, (*v.shape, *[1] * (x.rank - 2))) for v in (scale, shift)]
    return normalise(ctx, "instance_normalization", x, range(2, x.rank), node.float("epsilon", 1e-5), *affine)


@operator("GroupNormalization", since=18)
def group_normalization(ctx: Context, node: Node, x: Value, scale: Value, shift: Value) -> Value:
    """The channels' axis is split in two. Before opset 21, scale and shift have an element a group."""
    groups = node.int("num_groups")
    batch, channels, *spatial = x.shape
    ctx.require(equal(floor_mod(channels, groups), 0), f"{{}} channels cannot form {groups} groups", channels)
    members = ctx.simplify(floor_div(channels, groups))
    parameter = (groups, members if node.opset >= 21 else 1, *[1] * len(spatial))
    affine = [checked_reshape(ctx, v, parameter) for v in (scale, shift)]
    grouped = ctx.reshape(x, (batch, groups, members, *spatial))
    y = normalise(ctx, "group_normalization", grouped, range(2, grouped.rank), node.float("epsilon", 1e-5), *affine)
    return ctx.reshape(y, x.shape)


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(ctx: Context, node: Node, x: Value) -> Value:
    axes = node.axes(x.rank, [0, 2, 3])
    mean = mean_of(ctx, x, axes)
    inverse = mean_of_terms(
        ctx,
        "inverse_deviation",
        [x, mean],
        axes,
        lambda v, m: (v - m) * (v - m),
        lambda variance: like(variance, 1) / (tirx.sqrt(variance) + like(variance, 1e-9)),
    )
    return apply(ctx, "mean_variance_normalization", x, mean, inverse)


@operator("LpNormalization")
def lp_normalization(ctx: Context, node: Node, x: Value) -> Value:
    """Along an axis of zeros the result is zero."""
    p = node.int("p", 2)
    if p not in (1, 2):
        raise Unsupported(f"p={p}; only the norms 1 and 2 are defined")
    norm = reduce_axes(
        ctx,
        "norm",
        [x],
        [node.axis(x.rank, default=-1)],
        SUM,
        prepare=UNARY["Abs"] if p == 1 else lambda v: v * v,
        finish=lambda total: total if p == 1 else tirx.sqrt(total),
        dtype=compute_dtype(x.dtype),
    )
    return elementwise(
        ctx, "lp_normalization", lambda v, n: tirx.Select(tirx.EQ(n, like(n, 0)), like(n, 0), v / n), x, norm
    )


@operator("LRN")
def local_response_normalization(ctx: Context, node: Node, x: Value) -> Value:
    """`x / (bias + alpha / size * sum(x**2))**beta` with the sum over `size` neighbouring channels."""
    size, alpha, beta, bias = (
        node.int("size"),
        node.float("alpha", 1e-4),
        node.float("beta", 0.75),
        node.float("bias", 1.0),
    )
    if not 1 <= size <= MOST_TAPS:
        raise Unsupported(f"size is {size}; it must be from 1 to {MOST_TAPS}")
    if x.rank < 3:
        raise Unsupported(f"data of rank {x.rank}; it must have a batch, channels and at least one spatial axis")
    before = (size - 1) // 2
    channels: IntExpr = x.shape[1]

    def build(t: te.Tensor) -> te.Tensor:
        k = reduce_axis(size, name="k")

        def square(*index: ir.Expr) -> ir.Expr:
            channel = index[1] + k.var - before
            inside = tirx.all(channel >= 0, channel < channels)
            value = load(t, x.dtype, [index[0], channel, *index[2:]])
            return te.sum(tirx.if_then_else(inside, value * value, like(value, 0)), axis=k)

        total = compute(x.shape, square, name="squares")

        def element(*index: ir.Expr) -> ir.Expr:
            base = total(*index) * factor(total(*index), alpha / size) + like(total(*index), bias)
            return store(load(t, x.dtype, index) / power_of(base, beta), x.dtype)

        return compute(x.shape, element, name="lrn")

    return ctx.kernel("lrn", build, x, dtype=x.dtype)
