"""Imports Gelu, BiasGelu, FastGelu, QuickGelu, BiasSoftmax, BiasDropout of `com.microsoft`. `activated` applies the
activation that another operator has as an attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.activations import ACTIVATIONS
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard

_FUSED = (
    *("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "HardSwish", "LeakyRelu", "Elu", "ThresholdedRelu"),
    *("HardSigmoid", "Selu"),
)
"""The activations that other operators may have."""


def activated(onnx: Standard, x: Value, name: str, parameters: Sequence[float] | Mapping[str, float]) -> Value:
    """`x` after the activation `name`; an empty name is none. `parameters` are its attributes, by name or in order.

    Raises `Unsupported` for an unknown activation, and for too few parameters."""
    if not name:
        return x
    if name == "Clip" and not isinstance(parameters, Mapping) and len(parameters) == 2:
        return onnx("Clip", x, *(onnx.like(limit, x) for limit in parameters))
    if name not in _FUSED:
        raise Unsupported(f"activation '{name}'")
    names = tuple(ACTIVATIONS[name].parameters)
    if isinstance(parameters, Mapping):
        return onnx(name, x, **{key: parameters[key] for key in names if key in parameters})
    if len(parameters) not in (0, len(names)):
        raise Unsupported(f"activation '{name}' with {len(parameters)} parameters")
    return onnx(name, x, **dict(zip(names, parameters, strict=False)))


@operator("Gelu", domain=MICROSOFT)
def gelu(ctx: Context, node: Node, x: Value) -> Value:
    return Standard(ctx, node)("Gelu", x)


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(ctx: Context, node: Node, x: Value, bias: Value) -> Value:
    onnx = Standard(ctx, node)
    return onnx("Gelu", onnx("Add", x, bias))


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(ctx: Context, node: Node, x: Value, bias: Value | None = None) -> Value:
    """FastGelu: by a hyperbolic tangent."""
    onnx = Standard(ctx, node)
    return onnx("Gelu", x if bias is None else onnx("Add", x, bias), approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(ctx: Context, node: Node, x: Value) -> Value:
    return Standard(ctx, node)("Swish", x, alpha=node.float("alpha", 1.702))


@operator("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(ctx: Context, node: Node, x: Value, bias: Value) -> Value:
    """BiasSoftmax: a softmax over the axes from `axis` on. The bias misses axes before `axis`, or, if
    `is_inner_broadcast`, has the size 1 in those just before it."""
    onnx = Standard(ctx, node)
    axis = node.axis(x.rank, 1)
    total = onnx("Add", x, bias)
    rows = ctx.reshape(total, (*x.shape[:axis], ctx.product(x.shape[axis:])))
    return ctx.reshape(onnx("Softmax", rows, axis=-1), x.shape)


@operator("BiasDropout", domain=MICROSOFT)
def bias_dropout(
    ctx: Context,
    node: Node,
    x: Value,
    bias: Value,
    residual: Value | None = None,
    ratio: Value | None = None,
    training: Value | None = None,
) -> tuple[Value, ...]:
    """BiasDropout: the sum of its operands, because nothing is dropped outside of training."""
    onnx = Standard(ctx, node)
    if training is not None and (training.array is None or training.array.any()):
        raise Unsupported("training")
    total = onnx("Add", x, bias)
    total = total if residual is None else onnx("Add", total, residual)
    if not node.uses_output(1):
        return (total,)
    return total, onnx("Expand", ctx.constant(True, "bool"), onnx("Shape", total))
