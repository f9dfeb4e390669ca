"""Imports the ONNX operators Add, Sub, Mul, Div, And, Or, Xor, BitwiseAnd, BitwiseOr, BitwiseXor, Equal, Less, Greater,
LessOrEqual, GreaterOrEqual, Sum, Mean, Max, Min, Mod, BitShift, Pow, Where (`compiler.operators.arithmetic`). Before
opset 7 the second operand's shape was aligned with the first one's at `axis` (default: at the end)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add, mul, sub

from tvm import tirx

from deploykit.compiler.operators import arithmetic
from deploykit.compiler.operators.arithmetic import Binary
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.quantized.dequantized import added
from deploykit.compiler.tir.extrema import maximum, minimum
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_BINARY: Mapping[str, Binary] = {
    "Add": add,
    "Sub": sub,
    "Mul": mul,
    "Div": arithmetic.divide,
    "And": tirx.And,
    "Or": tirx.Or,
    "Xor": arithmetic.unequal,
    "BitwiseAnd": tirx.bitwise_and,
    "BitwiseOr": tirx.bitwise_or,
    "BitwiseXor": tirx.bitwise_xor,
}

_COMPARE: Mapping[str, Binary] = {
    "Equal": arithmetic.equal,
    "Less": tirx.LT,
    "Greater": tirx.GT,
    "LessOrEqual": tirx.LE,
    "GreaterOrEqual": tirx.GE,
}

_VARIADIC: Mapping[str, Binary] = {
    "Sum": add,
    "Max": maximum,
    "Min": minimum,
}


def _aligned(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """`b` with trailing axes of size 1 if `axis` (opset 6) asks for them."""
    if node.opset >= 7 or not node.has("axis"):
        return b
    trailing = a.rank - node.axis(a.rank) - b.rank
    return ctx.reshape(b, (*b.shape, *([1] * trailing)))


@operator(*_BINARY)
def binary(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    b = _aligned(ctx, node, a, b)
    if node.op_type == "Add":
        known = added(ctx, a, b) or added(ctx, b, a)
        if known is not None:
            return known
    return elementwise(ctx, node.op_type.lower(), _BINARY[node.op_type], a, b)


@operator(*_COMPARE)
def compare(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    b = _aligned(ctx, node, a, b)
    return elementwise(ctx, node.op_type.lower(), _COMPARE[node.op_type], a, b, dtype="bool")


@operator(*_VARIADIC)
def variadic(ctx: Context, node: Node, *inputs: Value) -> Value:
    return arithmetic.fold(ctx, node.op_type.lower(), _VARIADIC[node.op_type], *inputs)


@operator("Mean")
def mean(ctx: Context, node: Node, *inputs: Value) -> Value:
    return arithmetic.mean(ctx, *inputs)


@operator("Mod")
def modulo(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return arithmetic.modulo(ctx, a, b, truncates=bool(node.int("fmod", 0)))


@operator("BitShift")
def bit_shift(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return arithmetic.bit_shift(ctx, a, b, left=node.choice("direction", ("LEFT", "RIGHT")) == "LEFT")


@operator("Pow")
def power(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return arithmetic.power(ctx, a, _aligned(ctx, node, a, b))


@operator("Where")
def where(ctx: Context, node: Node, condition: Value, a: Value, b: Value) -> Value:
    return arithmetic.where(ctx, condition, a, b)
