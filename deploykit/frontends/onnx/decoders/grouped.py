"""Attention that is a GroupQueryAttention of `com.microsoft`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.rotary import rotary_embedding
from deploykit.compiler.operators.slicing import split
from deploykit.frontends.onnx.decoders.attentions import Attention, Find
from deploykit.frontends.onnx.decoders.places import Places
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.microsoft.grouped_attention import plain, refuse_variants
from deploykit.frontends.onnx.standard import Standard

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value

OPERATOR = "GroupQueryAttention"

PAST_KEY, LENGTHS, TOTAL, COSINES, SINES, POSITIONS, ADDEND, SINK = 3, 5, 6, 7, 8, 9, 10, 11
KEY_SCALE, VALUE_SCALE, QUERY_NORM, KEY_NORM = 12, 13, 14, 15
"""Operands by their places."""


@dataclass(frozen=True)
class Grouped(Attention):
    """GroupQueryAttention of `node`."""

    node: Node

    @classmethod
    def of(cls, source: ir.Node) -> Grouped:
        """Raises `Unsupported` for a form that pages do not have."""
        node = Node(
            OPERATOR,
            source.domain,
            source.name or "",
            1,
            dict(source.attributes),
            tuple(source.inputs),
            tuple(source.outputs),
            {},
        )
        given = [*source.inputs, *([None] * 16)]
        refuse_variants(node, given[KEY_SCALE], given[VALUE_SCALE])
        if given[SINK] is not None or node.int("smooth_softmax", -1) == 1:
            raise Unsupported("a softmax with a sink (head_sink, smooth_softmax)")
        if given[ADDEND] is not None:
            raise Unsupported("an attention_bias")
        if node.int("causal", 1) != 1:
            raise Unsupported("attention that is not causal")
        if node.int("do_rotary", 0) and (given[COSINES] is None or given[SINES] is None):
            raise Unsupported("do_rotary without caches of angles")
        heads, shared, result = node.int("num_heads"), node.int("kv_num_heads"), source.outputs[0]
        width = None if result.shape is None else result.shape[-1]
        if not isinstance(width, int):
            raise Unsupported(f"the size of its heads is not known: '{result.name}' has no declared width")
        size, window = width // heads, node.int("local_window_size", -1)
        return cls(
            result,
            (heads, shared),
            size,
            node.float("scale", 0.0) or size**-0.5,
            window if window > 0 else None,
            node.float("softcap", 0.0),
            node,
        )

    def operand(self, place: int) -> ir.Value | None:
        return self.node.inputs[place] if place < len(self.node.inputs) else None

    @property
    def reads(self) -> tuple[ir.Value | None, ...]:
        rotary = (COSINES, SINES, POSITIONS) if self.node.int("do_rotary", 0) else ()
        return tuple(self.operand(place) for place in (0, 1, 2, *rotary, QUERY_NORM, KEY_NORM))

    def check(self, places: Places) -> None:
        """The operator is told how much was read: all of it has to count."""
        for place, missing in ((LENGTHS, 1), (TOTAL, 0)):
            value = self.operand(place)
            assert value is not None
            for past, count in places.reads():
                found = places.at(value, (past, count)).reshape(-1)
                if found.tolist() != [past + count - missing]:
                    raise Unsupported(f"'{value.name}' is {found.tolist()} for {count} tokens behind {past}")

    def operands(self, ctx: Context, find: Find, positions: Value) -> tuple[Value, Value, Value]:
        q, k, v = (find(self.operand(place)) for place in range(3))
        heads, shared = self.heads
        assert q is not None
        if k is None or v is None:
            q, k, v = split(ctx, q, 2, [self.size * count for count in (heads, shared, shared)])
        q = self.normed(ctx, q, heads, find(self.operand(QUERY_NORM)))
        k = self.normed(ctx, k, shared, find(self.operand(KEY_NORM)))
        if self.node.int("do_rotary", 0):
            given, interleaved = find(self.operand(POSITIONS)), self.node.int("rotary_interleaved", 0) == 1
            cosines, sines = find(self.operand(COSINES)), find(self.operand(SINES))
            assert cosines is not None
            assert sines is not None
            turned = plain(ctx, cosines.shape[1] * 2, "turned channels")
            where = ctx.reshape(positions, (1, *positions.shape)) if given is None else given
            q, k = (
                rotary_embedding(ctx, x, cosines, sines, where, interleaved=interleaved, turned=turned, heads=count)
                for x, count in ((q, heads), (k, shared))
            )
        return q, k, v

    def normed(self, ctx: Context, x: Value, heads: int, scale: Value | None) -> Value:
        if scale is None:
            return x
        epsilon = self.node.float("qk_norm_epsilon", 1e-6)
        parts = ctx.reshape(x, (*x.shape[:2], heads, self.size))
        return ctx.reshape(
            Standard(ctx, self.node)("RMSNormalization", parts, scale, axis=-1, epsilon=epsilon), x.shape
        )

    def shaped(self, ctx: Context, y: Value) -> Value:
        del ctx
        return y
