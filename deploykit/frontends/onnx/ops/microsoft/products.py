"""Imports FusedMatMul, TransposeMatMul, FusedGemm, FusedMatMulActivation, GemmFastGelu, FusedConv, MatMulInteger16 of
`com.microsoft`."""

from __future__ import annotations

from collections.abc import Mapping

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.microsoft.activations import activated
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Attribute, Standard

WINDOW = ("auto_pad", "kernel_shape", "strides", "pads", "dilations", "group", "ceil_mode", "count_include_pad")
"""The attributes of convolutions and poolings that are as those of the standard operators."""


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return _product(Standard(ctx, node), node, a, b)


def _product(onnx: Standard, node: Node, a: Value, b: Value) -> Value:
    """`alpha` times the product of the operands, transposed first if the node says so."""
    product = onnx("MatMul", _turned(onnx, node, a, "A"), _turned(onnx, node, b, "B"))
    alpha = node.float("alpha", 1.0)
    return product if alpha == 1.0 else onnx("Mul", product, onnx.like(alpha, product))


@operator("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    onnx = Standard(ctx, node)
    return activated(onnx, _product(onnx, node, a, b), node.string("activation"), _parameters(node))


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(ctx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    onnx = Standard(ctx, node)
    y = onnx(
        "Gemm",
        *(a, b, c),
        alpha=node.float("alpha", 1.0),
        beta=node.float("beta", 1.0),
        transA=node.int("transA", 0),
        transB=node.int("transB", 0),
    )
    return activated(onnx, y, node.string("activation", ""), _parameters(node))


@operator("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    onnx = Standard(ctx, node)
    product = onnx("MatMul", x, w)
    return onnx("Gelu", product if bias is None else onnx("Add", product, bias), approximate="tanh")


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None, addend: Value | None = None
) -> Value:
    """FusedConv: a convolution, plus a tensor, and an activation."""
    onnx = Standard(ctx, node)
    y = onnx("Conv", x, w, bias, **window(node))
    y = y if addend is None else onnx("Add", y, addend)
    return activated(onnx, y, node.string("activation", ""), node.floats("activation_params", []))


@operator("MatMulInteger16", domain=MICROSOFT)
def matmul_integer16(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """MatMulInteger16: the product of 16-bit integers in 32 bits, of which it keeps the lowest ones."""
    onnx = Standard(ctx, node)
    dtype = "uint32" if a.dtype == b.dtype == "uint16" else "int32"
    return onnx("MatMul", ctx.cast(a, dtype), ctx.cast(b, dtype))


def window(node: Node) -> dict[str, Attribute]:
    """The attributes of the windows of a node that it shares with the standard operator."""
    return {name: node.attributes[name].value for name in WINDOW if node.has(name)}


def _turned(onnx: Standard, node: Node, x: Value, name: str) -> Value:
    """An operand after its transpositions: first its first axis to the place before the last one, then the last two."""
    order = list(range(x.rank))
    if node.int(f"transBatch{name}", 0) and x.rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if node.int(f"trans{name}", 0) and x.rank > 1:
        order[-2:] = order[:-3:-1]
    return x if order == sorted(order) else onnx("Transpose", x, perm=order)


def _parameters(node: Node) -> Mapping[str, float]:
    names = ("alpha", "beta", "gamma")
    return {name: node.float(f"activation_{name}") for name in names if node.has(f"activation_{name}")}
