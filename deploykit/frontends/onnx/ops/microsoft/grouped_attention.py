"""Imports RotaryEmbedding, GroupQueryAttention of `com.microsoft`.

GroupQueryAttention keeps keys and values in a cache: (batch, heads, positions, size). In a first run, which has as many
queries as positions, a row's first query is at position 0. Later, the last one is at the row's last position, so that
rows of one batch may differ in length; `lengths` are these last positions. A query sees the positions up to its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.attention import attention, join_heads, split_heads
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import expr, floor_div, maximum
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.rotary import rotary_embedding
from deploykit.compiler.operators.slicing import split
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding_with_positions(
    ctx: Context, node: Node, x: Value, positions: Value, cosines: Value, sines: Value
) -> Value:
    """RotaryEmbedding. A single position is that of the first column."""
    if node.int("is_packed_batching", 0) or node.float("scale", 1.0) != 1.0:
        raise Unsupported("packed batches, or a scale, which only graphics cards have")
    heads, turned = node.int("num_heads", 0), node.int("rotary_embedding_dim", 0)
    if x.rank == 3 and not heads:
        heads = plain(ctx, floor_div(x.shape[2], cosines.shape[1] * 2), "heads")
    batch, length = (x.shape[0], x.shape[1]) if x.rank == 3 else (x.shape[0], x.shape[2])
    if positions.rank == 1:
        positions = _counted(ctx, positions, batch, length)
    return rotary_embedding(
        ctx,
        *(x, cosines, sines, positions),
        interleaved=node.int("interleaved", 0) == 1,
        turned=turned or None,
        heads=heads if x.rank == 3 else None,
    )


def plain(ctx: Context, number: IntExpr, what: str) -> int:
    found = ctx.simplify(number)
    if not isinstance(found, int):
        raise Unsupported(f"a number of {what} that depends on the run")
    return found


def _counted(ctx: Context, first: Value, batch: IntExpr, length: IntExpr) -> Value:
    """Positions (batch, length) that count from a single first one."""

    def build(t: te.Tensor) -> te.Tensor:
        return compute([batch, length], lambda _, i: tirx.Cast("int64", t(expr(0))) + i, name="positions")

    return ctx.kernel("positions", build, first, dtype="int64")


@dataclass(frozen=True)
class _Cache:
    """The keys or values of earlier runs, those of this run, and where the latter are put. All sizes are those of the
    whole batch; `lengths` (batch,) has the last position of each row."""

    rows: IntExpr
    total: IntExpr
    lengths: Value

    def first(self, t: te.Tensor, b: ir.Expr) -> ir.Expr:
        """The position of the first query of a row."""
        later = tirx.Cast("int64", t(b)) + 1 - expr(self.rows)
        return tirx.Select(tirx.EQ(expr(self.rows), expr(self.total)), tirx.const(0, "int64"), later)


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    ctx: Context,
    node: Node,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    lengths: Value,
    total: Value,
    cosines: Value | None = None,
    sines: Value | None = None,
    positions: Value | None = None,
    addend: Value | None = None,
    sink: Value | None = None,
    key_scale: Value | None = None,
    value_scale: Value | None = None,
    query_norm: Value | None = None,
    key_norm: Value | None = None,
) -> tuple[Value | None, ...]:
    """GroupQueryAttention. Without keys and values, the queries have them beside them."""
    refuse_variants(node, key_scale, value_scale)
    if node.int("sliding_window_cache", 0):
        raise Unsupported("a cache of the size of a window; export the model without sliding_window_cache")
    heads, shared = node.int("num_heads"), node.int("kv_num_heads")
    if key is None or value is None:
        size = ctx.simplify(floor_div(query.shape[2], heads + 2 * shared))
        query, key, value = split(ctx, query, 2, [ctx.simplify(size * n) for n in (heads, shared, shared)])
    q, k, v = split_heads(ctx, query, heads), split_heads(ctx, key, shared), split_heads(ctx, value, shared)
    if query_norm is not None and key_norm is not None:
        onnx, epsilon = Standard(ctx, node), node.float("qk_norm_epsilon", 1e-6)
        q = onnx("RMSNormalization", q, query_norm, axis=-1, epsilon=epsilon)
        k = onnx("RMSNormalization", k, key_norm, axis=-1, epsilon=epsilon)
    batch, rows = query.shape[0], query.shape[1]
    before: IntExpr = 0 if past_key is None else past_key.shape[2]
    most = ctx.simplify(before + rows)
    whole = only_integer(ctx, ctx.cast(ctx.reshape(total, ()), "int64"), minimum=rows, maximum=most, hint="total")
    lengths = ctx.reshape(lengths, (batch,))
    cache = _Cache(rows, whole, lengths)
    if node.int("do_rotary", 0):
        if cosines is None or sines is None:
            raise Unsupported("do_rotary without caches of angles")
        places = _places(ctx, cache, batch) if positions is None else positions
        interleaved = node.int("rotary_interleaved", 0) == 1
        turned = plain(ctx, cosines.shape[1] * 2, "turned channels")
        q, k = (
            rotary_embedding(ctx, x, cosines, sines, places, interleaved=interleaved, turned=turned) for x in (q, k)
        )
    keys, values = (_joined(ctx, cache, past, new) for past, new in ((past_key, k), (past_value, v)))
    mask = _mask(ctx, node, cache, addend, (batch, keys.shape[2]))
    seen_keys, seen_values = keys, values
    if sink is not None or node.int("smooth_softmax", -1) == 1:
        seen_keys, seen_values, mask = _with_sink(ctx, node, keys, values, mask, sink, heads)
    y = attention(
        ctx,
        *(q, seen_keys, seen_values),
        mask=mask,
        scale=node.float("scale") if node.float("scale", 0.0) else None,
        softcap=node.float("softcap", 0.0),
    )[0]
    return join_heads(ctx, y), keys, values


def refuse_variants(node: Node, *scales: object | None) -> None:
    if any(scale is not None for scale in scales) or node.int("kv_cache_bit_width", 0):
        raise Unsupported("a cache in 8 or 4 bits; export the model with a cache of floats")
    if node.uses_output(3) or node.int("qk_output", 0):
        raise Unsupported("its output 'output_qk'")


def _places(ctx: Context, cache: _Cache, batch: IntExpr) -> Value:
    """The position of each query, (batch, length)."""

    def build(t: te.Tensor) -> te.Tensor:
        return compute([batch, cache.rows], lambda b, i: cache.first(t, b) + i, name="places")

    return ctx.kernel("places", build, cache.lengths, dtype="int64")


def _joined(ctx: Context, cache: _Cache, past: Value | None, new: Value) -> Value:
    """The new entries after those of earlier runs, in a cache that is as long as the longer of both."""
    batch, heads, rows, size = new.shape
    if past is None:
        return new
    before = past.shape[2]
    length = ctx.simplify(maximum(before, cache.total))

    def build(new_t: te.Tensor, past_t: te.Tensor, t: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, h: ir.Expr, i: ir.Expr, c: ir.Expr) -> ir.Expr:
            place = i - cache.first(t, b)
            is_new = tirx.all(place >= 0, place < expr(rows))
            earlier = tirx.if_then_else(i < expr(before), past_t(b, h, i, c), tirx.const(0, new.dtype))
            return tirx.if_then_else(is_new, new_t(b, h, place, c), earlier)

        return compute([batch, heads, length, size], element, name="cache")

    return ctx.kernel("cache", build, new, past, cache.lengths, dtype=new.dtype)


def _mask(ctx: Context, node: Node, cache: _Cache, addend: Value | None, sizes: tuple[IntExpr, IntExpr]) -> Value:
    """Which of the cached positions a query sees, (batch, 1, length, positions), or what is added to its scores."""
    batch, keys = sizes
    window, causal = node.int("local_window_size", -1), node.int("causal", 1) == 1

    def is_open(t: te.Tensor, b: ir.Expr, row: ir.Expr, key: ir.Expr) -> ir.Expr:
        position = cache.first(t, b) + row
        found = [key <= position] if causal else [key <= tirx.Cast("int64", t(b))]
        if window >= 0:
            found.append(key > position - window)
        return tirx.all(*found) if len(found) > 1 else found[0]

    if addend is None:

        def build(t: te.Tensor) -> te.Tensor:
            return compute([batch, 1, cache.rows, keys], lambda b, _, i, k: is_open(t, b, i, k), name="open")

        return ctx.kernel("open", build, cache.lengths, dtype="bool")
    first, heads, _, columns = addend.shape

    def build_added(t: te.Tensor, added: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, h: ir.Expr, i: ir.Expr, k: ir.Expr) -> ir.Expr:
            given = added(expr(0) if isinstance(first, int) and first == 1 else b, h, i, k)
            inside = tirx.all(is_open(t, b, i, k), k < expr(columns))
            return tirx.if_then_else(inside, given, tirx.const(-np.inf, addend.dtype))

        return compute([batch, heads, cache.rows, keys], element, name="open")

    return ctx.kernel("open", build_added, cache.lengths, addend, dtype=addend.dtype)


def _with_sink(
    ctx: Context, node: Node, keys: Value, values: Value, mask: Value, sink: Value | None, heads: int
) -> tuple[Value, Value, Value]:
    """Keys, values and mask with one more position, whose key and value are zeros, and whose score is that of the sink
    of the head, or zero. It takes its share of every softmax."""
    onnx = Standard(ctx, node)
    batch, shared, length, size = keys.shape
    zeros = ctx.zeros("sink", (batch, shared, 1, size), keys.dtype)
    score = ctx.constant(np.zeros(heads), keys.dtype) if sink is None else ctx.reshape(sink, (heads,))
    lead = mask.shape[1]

    def build(t: te.Tensor, s: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, h: ir.Expr, i: ir.Expr, k: ir.Expr) -> ir.Expr:
            given = t(b, expr(0) if isinstance(lead, int) and lead == 1 else h, i, k)
            if mask.dtype == "bool":
                given = tirx.Select(given, tirx.const(0, keys.dtype), tirx.const(-np.inf, keys.dtype))
            return tirx.if_then_else(k < expr(length), given, s(h))

        return compute([batch, heads, mask.shape[2], ctx.simplify(length + 1)], element, name="open")

    return (
        onnx("Concat", keys, zeros, axis=2),
        onnx("Concat", values, zeros, axis=2),
        ctx.kernel("open", build, mask, score, dtype=keys.dtype),
    )
