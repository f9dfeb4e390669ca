"""Imports the ONNX operator Attention (`compiler.operators.attention`)."""

from __future__ import annotations

from deploykit.compiler.operators.attention import Stage, attention
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_STAGES: tuple[Stage, ...] = ("scaled", "capped", "masked", "weights")
"""The stage of the scores that each `qk_matmul_output_mode` returns."""


@operator("Attention")
def attention_operator(
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
    return attention(
        ctx,
        query,
        key,
        value,
        mask=mask,
        past_key=past_key,
        past_value=past_value,
        lengths=lengths,
        heads=(node.int("q_num_heads"), node.int("kv_num_heads")) if query.rank == 3 else None,
        scale=node.float("scale") if node.has("scale") else None,
        softcap=node.float("softcap", 0.0),
        causal=node.int("is_causal", 0) == 1,
        left=node.int("left_window_size", -1),
        right=node.int("right_window_size", -1),
        precision=node.float_dtype("softmax_precision", query.dtype),
        shown=node.numbered("qk_matmul_output_mode", _STAGES, 0) if node.uses_output(3) else None,
    )
