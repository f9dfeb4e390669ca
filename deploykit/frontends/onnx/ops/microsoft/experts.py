"""Imports MoE, QMoE of `com.microsoft`: a mixture of experts, of which each token takes a few.

All experts are computed for all tokens, in one product each, and weighted; the weights of those that a token does not
take are zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.microsoft.blockwise import blocks_to_floats, constant_of, note_floats
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard


@dataclass(frozen=True)
class _Layer:
    """A linear layer of each expert: weights (experts, outputs, inputs) and biases (experts, outputs)."""

    weights: Value
    bias: Value | None

    def of(self, onnx: Standard, x: Value) -> Value:
        """The layer of `x`, (tokens, inputs) or (experts, tokens, inputs), as (experts, tokens, outputs)."""
        y = onnx("MatMul", x, onnx("Transpose", self.weights, perm=[0, 2, 1]))
        return y if self.bias is None else onnx("Add", y, onnx("Unsqueeze", self.bias, onnx.ints(1)))


@operator("MoE", domain=MICROSOFT)
def mixture_of_experts(
    ctx: Context,
    node: Node,
    x: Value,
    router: Value,
    first: Value,
    first_bias: Value | None,
    second: Value,
    second_bias: Value | None = None,
    third: Value | None = None,
    third_bias: Value | None = None,
) -> Value:
    gate = None if third is None else _Layer(third, third_bias)
    return _mixture(ctx, node, x, router, router, _Layer(first, first_bias), gate, _Layer(second, second_bias))


@operator("QMoE", domain=MICROSOFT)
def quantized_mixture_of_experts(
    ctx: Context,
    node: Node,
    x: Value,
    router: Value,
    first: Value,
    first_scale: Value | None,
    first_bias: Value | None,
    second: Value,
    second_scale: Value | None = None,
    second_bias: Value | None = None,
    third: Value | None = None,
    third_scale: Value | None = None,
    third_bias: Value | None = None,
    first_zero: Value | None = None,
    second_zero: Value | None = None,
    third_zero: Value | None = None,
    router_weights: Value | None = None,
) -> Value:
    """QMoE: MoE with weights in 2, 4 or 8 bits, which become float32 when the model is imported. Unless they are given,
    the shares of the experts that a token takes always have the sum 1."""
    if node.string("quant_type", "int") != "int" or node.int("weights_prepacked", -1) == 1:
        raise Unsupported("weights of small floats, or in another order; quantise the model again with integers")
    shares = router if router_weights is None else router_weights
    layers = [
        None if weights is None else _Layer(_floats(ctx, node, number, weights, scale, zero), bias)
        for number, weights, scale, zero, bias in (
            (1, first, first_scale, first_zero, first_bias),
            (3, third, third_scale, third_zero, third_bias),
            (2, second, second_scale, second_zero, second_bias),
        )
    ]
    up, gate, down = layers
    assert up is not None
    assert down is not None
    return _mixture(ctx, node, x, router, shares, up, gate, down, given=router_weights is not None)


def _floats(ctx: Context, node: Node, number: int, weights: Value, scale: Value | None, zero: Value | None) -> Value:
    """The weights of a layer as floats."""
    bits = node.int(f"fc{number}_expert_weight_bits", node.int("expert_weight_bits", 4))
    if scale is None:
        raise Unsupported("weights without scales")
    experts, rows, width = constant_of(weights).shape
    depth = width * 8 // bits
    block = node.int("block_size", 0) or depth
    matrix = blocks_to_floats(weights, scale, zero, (experts * rows, depth), bits=bits, block=block)
    note_floats(ctx, node, bits)
    return ctx.constant(matrix.reshape(experts, rows, depth))


def _mixture(
    ctx: Context,
    node: Node,
    x: Value,
    router: Value,
    shares: Value,
    up: _Layer,
    gate: _Layer | None,
    down: _Layer,
    *,
    given: bool = False,
) -> Value:
    onnx = Standard(ctx, node)
    tokens = ctx.reshape(x, (ctx.product(x.shape[:-1]), x.shape[-1]))
    inner = _active(onnx, node, up.of(onnx, tokens))
    if gate is not None:
        inner = onnx("Mul", inner, gate.of(onnx, tokens))
    results = down.of(onnx, inner)
    by_expert = onnx("Transpose", _weights(onnx, node, router, shares, given=given), perm=[1, 0])
    weights = onnx("Unsqueeze", by_expert, onnx.ints(2))
    y = onnx("ReduceSum", onnx("Mul", results, weights), onnx.ints(0), keepdims=0)
    return ctx.reshape(y, x.shape)


def _weights(onnx: Standard, node: Node, router: Value, shares: Value, *, given: bool) -> Value:
    """The weight of each expert for each token, (tokens, experts)."""
    if node.int("use_sparse_mixer", 0):
        raise Unsupported("use_sparse_mixer")
    found = shares if given else onnx("Softmax", shares, axis=-1)
    _, taken = onnx.several(2, "TopK", router, onnx.ints(node.int("k", 1)), axis=-1)
    weights = onnx("GatherElements", found, taken, axis=1)
    if node.int("normalize_routing_weights", 0) or (node.op_type == "QMoE" and not given):
        weights = onnx("Div", weights, onnx("ReduceSum", weights, onnx.ints(1), keepdims=1))
    return onnx("ScatterElements", onnx("Mul", found, onnx.like(0, found)), taken, weights, axis=1)


def _active(onnx: Standard, node: Node, x: Value) -> Value:
    """The activation of the first layer. SwiGLU has its two halves interleaved, or one after the other."""
    name = node.choice("activation_type", ("relu", "gelu", "silu", "swiglu", "identity"), "relu")
    if name == "swiglu" and node.int("swiglu_fusion", 0) == 0:
        name = "silu"
    if name != "swiglu":
        operators = {"relu": "Relu", "gelu": "Gelu", "silu": "Swish"}
        return onnx(operators[name], x) if name in operators else x
    size = onnx("Shape", x, start=2)
    if node.int("swiglu_fusion", 0) == 1:
        starts, step = (onnx.ints(0), onnx.ints(1)), onnx.ints(2)
        linear, scaled = (onnx("Slice", x, start, size, onnx.ints(2), step) for start in reversed(starts))
    else:
        scaled, linear = onnx.several(2, "Split", x, axis=2, num_outputs=2)
    if node.has("swiglu_limit"):
        limit, least = (onnx.like(sign * node.float("swiglu_limit"), x) for sign in (1, -1))
        scaled, linear = onnx("Clip", scaled, None, limit), onnx("Clip", linear, least, limit)
    shifted = onnx("Add", linear, onnx.like(node.float("activation_beta", 0.0), x))
    return onnx("Mul", onnx("Swish", scaled, alpha=node.float("activation_alpha", 1.0)), shifted)
