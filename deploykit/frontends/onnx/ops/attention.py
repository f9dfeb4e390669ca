"""ONNX: Attention (`compiler.operators.attention`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import ir, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import is_narrow_float, storage_dtype
from deploykit.compiler.operators.attention import (
    Scores,
    capped_of,
    check_mask,
    masked,
    rounded_of,
    scaled_of,
    shared_of,
    softmax_of,
    split_heads,
    weighted,
)
from deploykit.compiler.operators.broadcast import (
    compute_dtype,
    elementwise,
)
from deploykit.compiler.operators.cast import cast
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.integers import is_plain
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import matmul, wide_matmul
from deploykit.compiler.operators.sizes import require_equal
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

if TYPE_CHECKING:
    pass


@operator("Attention")
def attention(
    ctx: Context,
    node: Node,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    lengths: Value | None = None,
) -> tuple[Value | None, ...]:
    flat, dtype = query.rank == 3, query.dtype
    if flat:
        heads = node.int("kv_num_heads")
        query = split_heads(ctx, query, node.int("q_num_heads"))
        key, value = split_heads(ctx, key, heads), split_heads(ctx, value, heads)
    past: IntExpr = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        key, value = concat(ctx, [past_key, key], 2), concat(ctx, [past_value, value], 2)
    if lengths is not None:
        require_equal(ctx, "the batches of the queries and of the key lengths differ", query.shape[0], lengths.shape[0])
    rule = _scores_rule(node, query, past, mask, lengths)
    products = _products(ctx, node, query, key, scaled=rule.scale is None)
    if mask is not None:
        check_mask(ctx, mask, products)
    scores = masked(ctx, products, rule)
    weights = cast(ctx, softmax_of(ctx, scores, node.float_dtype("softmax_precision", dtype)), dtype, free=True)
    y = weighted(ctx, weights, value)
    if flat:
        batch, count, rows, size = y.shape
        y = ctx.reshape(transpose(ctx, y, [0, 2, 1, 3]), (batch, rows, count * size))
    if not node.uses_output(3):
        return (y, key, value, None)
    stages: tuple[Callable[[], Value], ...] = (
        lambda: elementwise(ctx, "scaled", lambda x: scaled_of(x, rule), products),
        lambda: elementwise(ctx, "capped", lambda x: capped_of(scaled_of(x, rule), rule), products),
        lambda: scores,
        lambda: weights,
    )
    return (y, key, value, ctx.cast(node.numbered("qk_matmul_output_mode", stages, 0)(), dtype))


def _scores_rule(node: Node, query: Value, past: IntExpr, mask: Value | None, lengths: Value | None) -> Scores:
    dtype = compute_dtype(query.dtype) if is_narrow_float(query.dtype) else query.dtype
    narrow = compute_dtype(dtype) != storage_dtype(dtype)
    return Scores(
        dtype=dtype,
        scale=None if narrow else _scale(node, query),
        softcap=node.float("softcap", 0.0),
        causal=node.int("is_causal", 0) == 1,
        left=node.int("left_window_size", -1),
        right=node.int("right_window_size", -1),
        offset=past,
        mask=mask,
        lengths=lengths,
    )


def _scale(node: Node, query: Value) -> ir.Expr:
    """The factor of the products, by default one over the root of the head size."""
    dtype, size = compute_dtype(query.dtype), query.shape[3]
    if node.has("scale"):
        return tirx.const(node.float("scale"), dtype)
    return tirx.const(size**-0.5, dtype) if is_plain(size) else tirx.const(1, dtype) / tirx.sqrt(tirx.Cast(dtype, size))


def _products(ctx: Context, node: Node, query: Value, key: Value, *, scaled: bool) -> Value:
    """(batch, query heads, queries, keys): each query times each key, both scaled first where wanted."""
    if scaled:
        root, dtype = tirx.sqrt(_scale(node, query)), query.dtype
        query = elementwise(ctx, "scaled_query", lambda x: x * rounded_of(root, dtype), query)
        key = elementwise(ctx, "scaled_key", lambda x: x * rounded_of(root, dtype), key)
    product = wide_matmul if is_narrow_float(query.dtype) else matmul
    return product(ctx, query, transpose(ctx, shared_of(ctx, key, query.shape[1]), [0, 1, 3, 2]))
