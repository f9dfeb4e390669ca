"""Imports what ONNX Runtime's quantiser writes: the operators of the form QOperator, products of integers with scales,
and 16-bit quantisation (`com.microsoft`).

An operator on quantised tensors is the operator on floats between a dequantisation and a quantisation, which the
compiler makes integer arithmetic where it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import onnx_ir as ir

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.microsoft.products import window
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard


def _requantised(onnx: Standard, y: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """`y` as integers of `dtype`, also without a zero point, which otherwise has it."""
    return onnx("QuantizeLinear", y, scale, zero, output_dtype=int(ir.DataType[dtype.upper()]))


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(
    ctx: Context,
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value | None,
    b: Value,
    b_scale: Value,
    b_zero: Value | None,
    y_scale: Value,
    y_zero: Value | None = None,
) -> Value:
    onnx = Standard(ctx, node)
    y = onnx(
        node.op_type.removeprefix("QLinear"),
        onnx("DequantizeLinear", a, a_scale, a_zero),
        onnx("DequantizeLinear", b, b_scale, b_zero),
    )
    return _requantised(onnx, y, y_scale, y_zero, a.dtype)


def _sigmoid(ctx: Context, node: Node, onnx: Standard, x: Value) -> Value:
    return onnx("Sigmoid", x)


def _leaky_relu(ctx: Context, node: Node, onnx: Standard, x: Value) -> Value:
    return onnx("LeakyRelu", x, alpha=node.float("alpha", 0.01))


def _softmax(ctx: Context, node: Node, onnx: Standard, x: Value) -> Value:
    """Softmax. Before opset 13, all axes from `axis` on are one."""
    axis = node.axis(x.rank, -1)
    if node.int("opset") >= 13:
        return onnx("Softmax", x, axis=axis)
    rows = ctx.reshape(x, (ctx.product(x.shape[:axis]), ctx.product(x.shape[axis:])))
    return ctx.reshape(onnx("Softmax", rows, axis=1), x.shape)


def _mean(ctx: Context, node: Node, onnx: Standard, x: Value) -> Value:
    return onnx("ReduceMean", x, onnx.ints(*node.axes(x.rank)), keepdims=node.int("keepdims", 1))


def _average(ctx: Context, node: Node, onnx: Standard, x: Value) -> Value:
    return onnx(node.op_type.removeprefix("QLinear"), x, **window(node))


_UNARY: Mapping[str, Callable[[Context, Node, Standard, Value], Value]] = {
    "QLinearSigmoid": _sigmoid,
    "QLinearLeakyRelu": _leaky_relu,
    "QLinearSoftmax": _softmax,
    "QLinearReduceMean": _mean,
    "QLinearAveragePool": _average,
    "QLinearGlobalAveragePool": _average,
}
"""What operators with one input do with floats."""


@operator(*_UNARY, domain=MICROSOFT)
def qlinear_unary(
    ctx: Context,
    node: Node,
    x: Value,
    x_scale: Value,
    x_zero: Value | None,
    y_scale: Value,
    y_zero: Value | None = None,
) -> Value:
    onnx = Standard(ctx, node)

    def function(integers: Value) -> Value:
        floats = onnx("DequantizeLinear", integers, x_scale, x_zero)
        return _requantised(onnx, _UNARY[node.op_type](ctx, node, onnx, floats), y_scale, y_zero, x.dtype)

    return _channels_first(onnx, node, x, function)


@operator("QLinearConv", domain=MICROSOFT)
def qlinear_conv(
    ctx: Context,
    node: Node,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    bias: Value | None = None,
) -> Value:
    onnx = Standard(ctx, node)

    def convolve(channels_first: Value) -> Value:
        operands = (channels_first, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias)
        return onnx("QLinearConv", *operands, **window(node))

    return _channels_first(onnx, node, x, convolve)


@operator("NhwcMaxPool", domain=MICROSOFT)
def max_pool_of_channels_last(ctx: Context, node: Node, x: Value) -> Value:
    onnx = Standard(ctx, node)
    return _moved(onnx, x, lambda channels_first: onnx("MaxPool", channels_first, **window(node)))


def _channels_first(onnx: Standard, node: Node, x: Value, function: Callable[[Value], Value]) -> Value:
    """`function` of `x`, whose channels are axis 1 or, as the node may say, the last one."""
    return _moved(onnx, x, function) if node.int("channels_last", 0) else function(x)


def _moved(onnx: Standard, x: Value, function: Callable[[Value], Value]) -> Value:
    """`function` of `x` with its last axis after the first, which is moved back afterwards."""
    last = x.rank - 1
    y = function(onnx("Transpose", x, perm=[0, last, *range(1, last)]))
    return onnx("Transpose", y, perm=[0, *range(2, x.rank), 1])


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(ctx: Context, node: Node, y_scale: Value, y_zero: Value, *inputs: Value) -> Value:
    """QLinearConcat: each input comes with its scale and its zero point."""
    if not inputs or len(inputs) % 3:
        raise Unsupported(f"it has {len(inputs)} inputs after the first two; they must come in threes")
    onnx = Standard(ctx, node)
    parts = [
        _requantised(onnx, onnx("DequantizeLinear", *inputs[i : i + 3]), y_scale, y_zero, y_zero.dtype)
        for i in range(0, len(inputs), 3)
    ]
    return onnx("Concat", *parts, axis=node.axis(parts[0].rank))


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    ctx: Context,
    node: Node,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    z_scale: Value,
    z_zero: Value,
) -> Value:
    onnx = Standard(ctx, node)
    parts = (
        _requantised(onnx, onnx("DequantizeLinear", *part), z_scale, z_zero, x.dtype)
        for part in ((x, x_scale, x_zero), (y, y_scale, y_zero))
    )
    return onnx("Where", condition, *parts)


@operator("QGemm", domain=MICROSOFT)
def qgemm(
    ctx: Context,
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    c: Value | None = None,
    y_scale: Value | None = None,
    y_zero: Value | None = None,
) -> Value:
    """QGemm: `alpha * a @ b + c`. The integers of `c` have the scale `alpha * a_scale * b_scale`. Without `y_scale` the
    result is one of floats."""
    onnx, alpha, turned = Standard(ctx, node), node.float("alpha", 1.0), node.int("transB", 0)
    left = onnx("DequantizeLinear", a, a_scale, a_zero)
    right = onnx("DequantizeLinear", b, _flat(ctx, b_scale), _flat(ctx, b_zero), axis=0 if turned else 1)
    addend = None
    if c is not None:
        step = onnx("Mul", onnx("Mul", a_scale, b_scale), onnx.like(alpha, a_scale))
        addend = onnx("Mul", ctx.cast(c, "float32"), step)
    y = onnx("Gemm", left, right, addend, alpha=alpha, transA=node.int("transA", 0), transB=turned)
    if y_scale is None:
        return y
    return _requantised(onnx, y, y_scale, y_zero, a.dtype if y_zero is None else y_zero.dtype)


def _flat(ctx: Context, parameter: Value) -> Value:
    """A scale or zero point without axes of size 1 around its one axis."""
    count = ctx.product(parameter.shape)
    return ctx.reshape(parameter, () if isinstance(count, int) and count == 1 else (count,))


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    ctx: Context,
    node: Node,
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value | None = None,
    b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    return _scaled_product(ctx, Standard(ctx, node), (a, a_scale, a_zero), (b, b_scale, b_zero), bias)


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    ctx: Context,
    node: Node,
    a: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """DynamicQuantizeMatMul: floats, quantised by their range, times integers."""
    onnx = Standard(ctx, node)
    integers, a_scale, a_zero = onnx.several(3, "DynamicQuantizeLinear", a)
    return _scaled_product(ctx, onnx, (integers, a_scale, a_zero), (b, b_scale, b_zero), bias)


_Scaled: TypeAlias = "tuple[Value, Value, Value | None]"
"""Integers, their scale and their zero point."""


def _scaled_product(ctx: Context, onnx: Standard, a: _Scaled, b: _Scaled, bias: Value | None) -> Value:
    """The product of integers, times both scales, plus a bias."""
    (left, left_scale, left_zero), (right, right_scale, right_zero) = a, b
    total = onnx("MatMulInteger", left, right, left_zero, right_zero)
    y = onnx("Mul", ctx.cast(total, left_scale.dtype), onnx("Mul", left_scale, right_scale))
    return y if bias is None else onnx("Add", y, bias)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None,
    lengths: Value | None,
    h: Value | None,
    c: Value | None,
    peephole: Value | None,
    w_scale: Value,
    w_zero: Value,
    r_scale: Value,
    r_zero: Value,
) -> tuple[Value, ...]:
    """DynamicQuantizeLSTM: an LSTM with weights of 8 bits. Its inputs and states stay floats, so that its results are
    nearer to those of the LSTM before quantisation than ONNX Runtime's."""
    onnx = Standard(ctx, node)
    weights = (_gates(ctx, onnx, *part) for part in ((w, w_scale, w_zero), (r, r_scale, r_zero)))
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    return onnx.several(3, "LSTM", x, *weights, bias, lengths, h, c, peephole, **attributes)


def _gates(ctx: Context, onnx: Standard, w: Value, scale: Value, zero: Value) -> Value:
    """Weights (directions, inputs, gates) as those of an LSTM, (directions, gates, inputs). Their scales are one per
    direction, or one per direction and gate."""
    columns = (*scale.shape, 1) if scale.rank == 1 else scale.shape
    shift, step = (ctx.reshape(v, (columns[0], 1, columns[1])) for v in (zero, scale))
    integers = onnx("Sub", ctx.cast(w, "int32"), ctx.cast(shift, "int32"))
    return onnx("Transpose", onnx("Mul", ctx.cast(integers, "float32"), step), perm=[0, 2, 1])


@operator("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None) -> Value:
    return Standard(ctx, node)("QuantizeLinear", x, scale, zero, axis=node.axis(max(x.rank, 1), _default_axis(x)))


@operator("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None) -> Value:
    """DequantizeLinear. The zero points of int32 may be given, though the standard operator takes none."""
    if zero is not None and zero.array is not None and not zero.array.any():
        zero = None
    return Standard(ctx, node)("DequantizeLinear", x, scale, zero, axis=node.axis(max(x.rank, 1), _default_axis(x)))


def _default_axis(x: Value) -> int:
    return 1 if x.rank > 1 else 0
