"""Imports Attention, MultiHeadAttention, QAttention of `com.microsoft`. Masks add `mask_filter_value` to the scores of
closed keys, so that a query without an open key weighs all keys by their scores, as ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.attention import attention, join_heads, split_heads
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import expr, floor_div
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.slicing import split
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard


@operator("Attention", domain=MICROSOFT)
def attention_with_projection(
    ctx: Context,
    node: Node,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    addend: Value | None = None,
    past_length: Value | None = None,
) -> tuple[Value | None, ...]:
    """Attention: its first product gives the queries, keys and values."""
    onnx = Standard(ctx, node)
    product = onnx("MatMul", x, weights)
    return _self_attention(ctx, node, product if bias is None else onnx("Add", product, bias), mask, past, addend)


@operator("QAttention", domain=MICROSOFT)
def quantized_attention(
    ctx: Context,
    node: Node,
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    w_scale: Value,
    mask: Value | None = None,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
    past: Value | None = None,
) -> tuple[Value | None, ...]:
    """QAttention: Attention whose first product is one of integers of 8 bits."""
    onnx = Standard(ctx, node)
    product = onnx(
        "MatMul",
        onnx("DequantizeLinear", x, x_scale, x_zero),
        onnx("DequantizeLinear", weights, w_scale, w_zero, axis=1),
    )
    return _self_attention(ctx, node, onnx("Add", product, bias), mask, past, None)


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    ctx: Context,
    node: Node,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    mask: Value | None = None,
    addend: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_length: Value | None = None,
    beams: Value | None = None,
) -> tuple[Value | None, ...]:
    """MultiHeadAttention. Queries, keys and values are three matrices per batch, or come packed; keys and values that
    have four axes are those of an earlier run."""
    if past_length is not None or beams is not None:
        raise Unsupported("buffers that the past and the present share; export it without past_present_share_buffer")
    heads = node.int("num_heads")
    q, k, v = _parts(ctx, query, key, value)
    if bias is not None:
        q, k, v = _biased(ctx, Standard(ctx, node), bias, q, k, v)
    return _attend(ctx, node, q, k, v, heads=heads, mask=mask, addend=addend, past_key=past_key, past_value=past_value)


def _self_attention(
    ctx: Context, node: Node, joined: Value, mask: Value | None, past: Value | None, addend: Value | None
) -> tuple[Value | None, ...]:
    """The result, and keys and values in one tensor (2, batch, heads, length, size). `joined` has queries, keys and
    values side by side."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.int(name, 0):
            raise Unsupported(f"{name}, which only graphics cards have; export the model without it")
    onnx = Standard(ctx, node)
    third = ctx.simplify(floor_div(joined.shape[-1], 3))
    widths: Sequence[IntExpr] = node.ints("qkv_hidden_sizes", []) or [third] * 3
    if len(widths) != 3:
        raise Unsupported(f"qkv_hidden_sizes has {len(widths)} entries, expected 3")
    q, k, v = split(ctx, joined, 2, widths)
    pasts = [None, None] if past is None else [onnx("Gather", past, ctx.constant(i, "int64"), axis=0) for i in (0, 1)]
    y, key, value = _attend(
        ctx,
        node,
        *(q, k, v),
        heads=node.int("num_heads"),
        mask=mask,
        addend=addend,
        past_key=pasts[0],
        past_value=pasts[1],
    )[:3]
    if not node.uses_output(1):
        return (y,)
    return y, onnx("Concat", *(onnx("Unsqueeze", v, onnx.ints(0)) for v in (key, value)), axis=0)


def _attend(
    ctx: Context,
    node: Node,
    q: Value,
    k: Value,
    v: Value,
    *,
    heads: int,
    mask: Value | None,
    addend: Value | None,
    past_key: Value | None,
    past_value: Value | None,
) -> tuple[Value, Value, Value, Value | None]:
    """The result (batch, length, heads * width), keys and values (batch, heads, length, size), and the scores if they
    are asked for. `k` and `v` may have four axes already."""
    onnx = Standard(ctx, node)
    q = split_heads(ctx, q, heads)
    k, v = (x if x.rank == 4 else split_heads(ctx, x, heads) for x in (k, v))
    total = k.shape[2] if past_key is None else ctx.simplify(past_key.shape[2] + k.shape[2])
    if mask is not None:
        closed = _closed(ctx, node, mask, q.shape[0], total)
        addend = closed if addend is None else onnx("Add", closed, addend)
    y, key, value, scores = attention(
        ctx,
        *(q, k, v),
        mask=addend,
        past_key=past_key,
        past_value=past_value,
        scale=node.float("scale") if node.float("scale", 0.0) else None,
        causal=node.int("unidirectional", 0) == 1,
        shown="masked" if node.uses_output(3) else None,
    )
    return join_heads(ctx, y), key, value, scores


def _parts(ctx: Context, query: Value, key: Value | None, value: Value | None) -> tuple[Value, Value, Value]:
    """Queries, keys and values, each (batch, length, heads * size). Packed ones have five axes: batch, length, heads,
    which of them, size. Those of an earlier run stay as they are, (batch, heads, length, size)."""
    if query.rank == 5:
        q, k, v = _unpacked(ctx, query, 3)
        return q, k, v
    if key is not None and key.rank == 5:
        k, v = _unpacked(ctx, key, 2)
        return query, k, v
    if key is None or value is None:
        raise Unsupported("queries without keys and values")
    return query, key, value


def _unpacked(ctx: Context, x: Value, count: int) -> list[Value]:
    batch, length, heads, _, size = x.shape
    parts = split(ctx, x, 3, [1] * count)
    return [ctx.reshape(part, (batch, length, ctx.simplify(heads * size))) for part in parts]


def _biased(ctx: Context, onnx: Standard, bias: Value, *parts: Value) -> list[Value]:
    """Queries, keys and values plus their parts of the bias. Those of an earlier run have theirs already."""
    present = [part for part in parts if part.rank == 3]
    if len(present) < len(parts):
        bias = split(ctx, bias, 0, [parts[0].shape[2], ctx.simplify(bias.shape[0] - parts[0].shape[2])])[0]
    pieces = iter(split(ctx, bias, 0, [part.shape[2] for part in present]))
    return [onnx("Add", part, next(pieces)) if part.rank == 3 else part for part in parts]


def _closed(ctx: Context, node: Node, mask: Value, batch: IntExpr, total: IntExpr) -> Value:
    """What a mask adds to scores, a tensor that broadcasts to (batch, heads, queries, keys).

    A mask of two or three axes has ones for open keys. One of one axis has the first closed key of each row, which the
    first open ones may follow."""
    shut = node.float("mask_filter_value", -10000.0)

    def added(is_open: ir.Expr) -> ir.Expr:
        return tirx.Select(is_open, tirx.const(0.0, "float32"), tirx.const(shut, "float32"))

    if mask.rank in (2, 3):
        lead = [batch, 1, *mask.shape[1:]] if mask.rank == 3 else [batch, 1, 1, mask.shape[1]]

        def by_element(t: te.Tensor) -> te.Tensor:
            return compute(lead, lambda b, _, *place: added(t(b, *place[3 - mask.rank :]) > 0), name="closed")

        return ctx.kernel("attention_mask", by_element, mask, dtype="float32")
    if mask.rank != 1:
        raise Unsupported(f"an attention mask of rank {mask.rank}")
    starts = ctx.equal(mask.shape[0], ctx.simplify(2 * batch)) and not ctx.equal(mask.shape[0], batch)
    if not starts and not ctx.equal(mask.shape[0], batch):
        raise Unsupported(f"an attention mask of {mask.shape[0]} elements for a batch of {batch}")

    def by_position(t: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, _: ir.Expr, __: ir.Expr, key: ir.Expr) -> ir.Expr:
            inside = key < tirx.Cast("int64", t(b))
            if starts:
                inside = tirx.all(inside, key >= tirx.Cast("int64", t(b + expr(batch))))
            return added(inside)

        return compute([batch, 1, 1, total], element, name="closed")

    return ctx.kernel("attention_mask", by_position, mask, dtype="float32")
