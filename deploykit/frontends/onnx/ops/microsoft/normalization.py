"""Imports SimplifiedLayerNormalization, SkipLayerNormalization, SkipSimplifiedLayerNormalization,
EmbedLayerNormalization, QEmbedLayerNormalization of `com.microsoft`. The first one is also taken in the standard
domain, where ONNX Runtime writes it."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard

EPSILON = 1e-12
"""What SkipLayerNormalization and its relatives add to variances, if they do not say."""


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(ctx: Context, node: Node, x: Value, scale: Value) -> tuple[Value, ...]:
    onnx, axis, epsilon = Standard(ctx, node), node.axis(x.rank, -1), node.float("epsilon", 1e-5)
    y = onnx("RMSNormalization", x, scale, axis=axis, epsilon=epsilon)
    return (y, _inverse(onnx, x, axis, epsilon)) if node.uses_output(1) else (y,)


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    ctx: Context, node: Node, x: Value, skip: Value, scale: Value, bias: Value | None = None
) -> tuple[Value | None, ...]:
    onnx, epsilon = Standard(ctx, node), node.float("epsilon", EPSILON)
    total = _sum(onnx, x, skip, bias)
    y = onnx("RMSNormalization", total, scale, axis=-1, epsilon=epsilon)
    if node.uses_output(1):
        raise Unsupported("its output 'mean', which it does not compute")
    return y, None, _inverse(onnx, total, -1, epsilon) if node.uses_output(2) else None, total


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    ctx: Context,
    node: Node,
    x: Value,
    skip: Value,
    scale: Value,
    shift: Value | None = None,
    bias: Value | None = None,
) -> tuple[Value, ...]:
    """SkipLayerNormalization: the normalised sum, its mean, the inverse of its deviation, and the sum itself."""
    onnx = Standard(ctx, node)
    total = _sum(onnx, x, skip, bias)
    results = onnx.several(
        3, "LayerNormalization", total, scale, shift, axis=-1, epsilon=node.float("epsilon", EPSILON)
    )
    return *results, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    ctx: Context,
    node: Node,
    ids: Value,
    segments: Value | None,
    words: Value,
    positions: Value,
    segment_table: Value | None,
    scale: Value,
    shift: Value,
    mask: Value | None = None,
    places: Value | None = None,
) -> tuple[Value | None, ...]:
    """EmbedLayerNormalization. Without `places`, a word's place is its position in its row."""
    return _embedded(ctx, node, ids, segments, [words, positions, segment_table, scale, shift], mask, places)


def _embedded(
    ctx: Context,
    node: Node,
    ids: Value,
    segments: Value | None,
    tables: Sequence[Value | None],
    mask: Value | None,
    places: Value | None,
) -> tuple[Value | None, ...]:
    """The normalised sum of the embeddings of words, positions and segments, how many ones each row of the mask has,
    and the sum. `tables`: the embeddings, and the scale and shift of the normalisation."""
    onnx = Standard(ctx, node)
    words, positions, segment_table, scale, shift = tables
    place = _counted(onnx, ids) if places is None else places
    total = onnx("Add", onnx("Gather", words, ids), onnx("Gather", positions, place))
    if segments is not None and segment_table is not None:
        total = onnx("Add", total, onnx("Gather", segment_table, segments))
    y = onnx("LayerNormalization", total, scale, shift, axis=-1, epsilon=node.float("epsilon", EPSILON))
    return y, _ones(ctx, onnx, ids, mask) if node.uses_output(1) else None, total


@operator("QEmbedLayerNormalization", domain=MICROSOFT)
def quantized_embed_layer_normalization(
    ctx: Context, node: Node, ids: Value, segments: Value | None, *inputs: Value | None
) -> tuple[Value | None, ...]:
    """QEmbedLayerNormalization: EmbedLayerNormalization of tables in 8 bits. After five tables and the mask come their
    scales, and then their zero points."""
    if len(inputs) != 16:
        raise Unsupported(f"it has {len(inputs) + 2} inputs, and the operator takes 18")
    onnx = Standard(ctx, node)
    tables, mask, scales, zeros = inputs[:5], inputs[5], inputs[6:11], inputs[11:]
    floats = [
        None if table is None else onnx("DequantizeLinear", table, scale, zero)
        for table, scale, zero in zip(tables, scales, zeros, strict=True)
    ]
    return _embedded(ctx, node, ids, segments, floats, mask, None)


def _sum(onnx: Standard, x: Value, skip: Value, bias: Value | None) -> Value:
    total = onnx("Add", x, skip)
    return total if bias is None else onnx("Add", total, bias)


def _inverse(onnx: Standard, x: Value, axis: int, epsilon: float) -> Value:
    """One over the root of the mean of the squares of `x` over the axes from `axis` on."""
    axes = onnx.ints(*range(axis % x.rank, x.rank))
    square = onnx("ReduceMean", onnx("Mul", x, x), axes, keepdims=1)
    return onnx("Reciprocal", onnx("Sqrt", onnx("Add", square, onnx.like(epsilon, x))))


def _counted(onnx: Standard, ids: Value) -> Value:
    """The positions 0, 1, ... of the columns of `ids`."""
    length = onnx("Squeeze", onnx("Shape", ids, start=1, end=2), onnx.ints(0))
    zero, one = onnx.like(0, length), onnx.like(1, length)
    return onnx("Range", zero, length, one)


def _ones(ctx: Context, onnx: Standard, ids: Value, mask: Value | None) -> Value:
    """How many ones each row of a mask has; without a mask, zeros."""
    if mask is None:
        return ctx.zeros("ones", ids.shape[:1], ids.dtype)
    ones = ctx.cast(onnx("Equal", mask, onnx.like(1, mask)), mask.dtype)
    return onnx("ReduceSum", ones, onnx.ints(1), keepdims=0)
