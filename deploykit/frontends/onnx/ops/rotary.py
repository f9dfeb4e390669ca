"""Imports the ONNX operator RotaryEmbedding (`compiler.operators.rotary`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.rotary import rotary_embedding
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("RotaryEmbedding")
def rotary_embedding_operator(
    ctx: Context, node: Node, x: Value, cosines: Value, sines: Value, positions: Value | None = None
) -> Value:
    return rotary_embedding(
        ctx,
        x,
        cosines,
        sines,
        positions,
        interleaved=node.int("interleaved", 0) == 1,
        turned=node.int("rotary_embedding_dim", 0) or None,
        heads=node.int("num_heads") if x.rank == 3 else None,
    )
