"""Imports the ONNX operators LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization,
MeanVarianceNormalization, LpNormalization, LRN (`compiler.operators.normalization`)."""

from __future__ import annotations

from deploykit.compiler.operators import normalization
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


def _trailing(node: Node, x: Value) -> range:
    """The axes from the attribute `axis` to the last."""
    return range(node.axis(x.rank, default=-1), x.rank)


def _epsilon(node: Node) -> float:
    return node.float("epsilon", 1e-5)


@operator("LayerNormalization")
def layer_normalization(
    ctx: Context, node: Node, x: Value, scale: Value, shift: Value | None = None
) -> tuple[Value, ...]:
    stash = node.float_dtype("stash_type", "float32")
    return normalization.layer_normalization(
        ctx, x, scale, shift, axes=_trailing(node, x), epsilon=_epsilon(node), statistics_dtype=stash
    )


@operator("RMSNormalization")
def rms_normalization(ctx: Context, node: Node, x: Value, scale: Value) -> Value:
    return normalization.rms_normalization(ctx, x, scale, axes=_trailing(node, x), epsilon=_epsilon(node))


@operator("InstanceNormalization")
def instance_normalization(ctx: Context, node: Node, x: Value, scale: Value, shift: Value) -> Value:
    return normalization.instance_normalization(ctx, x, scale, shift, epsilon=_epsilon(node))


@operator("GroupNormalization", since=18)
def group_normalization(ctx: Context, node: Node, x: Value, scale: Value, shift: Value) -> Value:
    """GroupNormalization. Before opset 21, scale and shift have an element per group, else one per channel."""
    return normalization.group_normalization(
        ctx, x, scale, shift, groups=node.int("num_groups"), epsilon=_epsilon(node), by_group=node.opset < 21
    )


@operator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(ctx: Context, node: Node, x: Value) -> Value:
    return normalization.mean_variance_normalization(ctx, x, node.axes(x.rank, [0, 2, 3]))


@operator("LpNormalization")
def lp_normalization(ctx: Context, node: Node, x: Value) -> Value:
    return normalization.lp_normalization(ctx, x, node.axis(x.rank, default=-1), node.int("p", 2))


@operator("LRN")
def local_response_normalization(ctx: Context, node: Node, x: Value) -> Value:
    return normalization.local_response_normalization(
        ctx,
        x,
        node.int("size"),
        alpha=node.float("alpha", 1e-4),
        beta=node.float("beta", 0.75),
        bias=node.float("bias", 1.0),
    )
