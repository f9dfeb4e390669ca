"""ONNX: Mod, BitShift, Pow, Where (`compiler.operators.arithmetic`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from tvm import ir, te, tirx

from deploykit.compiler.operators.arithmetic import Binary, divide, extreme, number, single
from deploykit.compiler.operators.broadcast import broadcast, broadcast_index, elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import is_float, like
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_BINARY: Mapping[str, Binary] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": divide,
    "And": tirx.And,
    "Or": tirx.Or,
    "Xor": lambda a, b: tirx.NE(number(a), number(b)),
    "BitwiseAnd": tirx.bitwise_and,
    "BitwiseOr": tirx.bitwise_or,
    "BitwiseXor": tirx.bitwise_xor,
}


_COMPARE: Mapping[str, Binary] = {
    "Equal": lambda a, b: tirx.EQ(number(a), number(b)),
    "Less": tirx.LT,
    "Greater": tirx.GT,
    "LessOrEqual": tirx.LE,
    "GreaterOrEqual": tirx.GE,
}


_VARIADIC: Mapping[str, Binary] = {
    "Sum": lambda a, b: a + b,
    "Mean": lambda a, b: a + b,
    "Max": lambda a, b: extreme(tirx.max, a, b),
    "Min": lambda a, b: extreme(tirx.min, a, b),
}


def _aligned(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """`b` with trailing axes of size 1 where `axis` (opset 6) asks for them."""
    if node.opset >= 7 or not node.has("axis"):
        return b
    trailing = a.rank - node.axis(a.rank) - b.rank
    return ctx.reshape(b, (*b.shape, *([1] * trailing)))


@operator(*_BINARY)
def binary(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return elementwise(ctx, node.op_type.lower(), _BINARY[node.op_type], a, _aligned(ctx, node, a, b))


@operator(*_COMPARE)
def compare(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    b = _aligned(ctx, node, a, b)
    return elementwise(ctx, node.op_type.lower(), _COMPARE[node.op_type], a, b, dtype="bool")


@operator(*_VARIADIC)
def variadic(ctx: Context, node: Node, *inputs: Value) -> Value:
    if len(inputs) == 1:
        return inputs[0]

    def function(*xs: ir.Expr) -> ir.Expr:
        total = reduce(_VARIADIC[node.op_type], xs)
        return total / like(total, len(xs)) if node.op_type == "Mean" else total

    return elementwise(ctx, node.op_type.lower(), function, *inputs)


@operator("Mod")
def modulo(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    truncates = node.int("fmod", 0)

    def function(x: ir.Expr, y: ir.Expr) -> ir.Expr:
        if not is_float(x):
            return tirx.truncmod(x, y) if truncates else tirx.floormod(x, y)
        rest = tirx.fmod(x, y)
        if truncates:
            return rest
        zero = like(x, 0)
        unlike = tirx.any(tirx.all(rest < zero, y > zero), tirx.all(rest > zero, y < zero))
        signed_zero = tirx.Select(y < zero, like(x, -0.0), zero)
        return tirx.Select(tirx.EQ(rest, zero), signed_zero, tirx.Select(unlike, rest + y, rest))

    return elementwise(ctx, "mod", function, a, b)


@operator("BitShift")
def bit_shift(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    left = node.choice("direction", ("LEFT", "RIGHT")) == "LEFT"

    signed = a.dtype.startswith("int")
    bits = int(a.dtype.removeprefix("u").removeprefix("int"))

    def function(x: ir.Expr, y: ir.Expr) -> ir.Expr:
        possible = tirx.all(y >= like(y, 0), y < like(y, bits)) if signed else y < like(y, bits)
        if left:
            return tirx.Select(possible, x << y, like(x, 0))
        sign = tirx.Select(x < like(x, 0), like(x, -1), like(x, 0)) if signed else like(x, 0)
        return tirx.Select(possible, x >> y, sign)

    return elementwise(ctx, "bitshift", function, a, b)


@operator("Pow")
def power(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    b = _aligned(ctx, node, a, b)
    exponent = single(b) if b.rank <= a.rank else None
    if exponent is not None and exponent in _POWERS and (exponent > 0 or a.dtype.startswith(("float", "bfloat"))):
        return elementwise(ctx, "pow", _POWERS[exponent], a)

    def function(x: ir.Expr, y: ir.Expr) -> ir.Expr:
        if is_float(x):
            return tirx.power(x, tirx.Cast(x.ty.dtype, y))
        return tirx.power(tirx.Cast("float64", x), tirx.Cast("float64", y))

    return elementwise(ctx, "pow", function, a, b)


_POWERS: Mapping[float, Callable[[ir.Expr], ir.Expr]] = {
    -1.0: lambda x: like(x, 1) / x,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}


@operator("Where")
def where(ctx: Context, node: Node, condition: Value, a: Value, b: Value) -> Value:
    shape = broadcast(ctx, condition, a, b)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            pairs = zip(tensors, (condition, a, b), strict=True)
            return tirx.Select(*(t(*broadcast_index(ctx, v.shape, shape, index)) for t, v in pairs))

        return compute(shape, element, name="where")

    return ctx.kernel("where", build, condition, a, b, dtype=a.dtype)
