"""Elementwise operators: arithmetic, comparison, logic, activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tvm import ir, tirx

from deploykit.frontends.onnx.broadcast import elementwise
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.value import Value


def _is_float(x: ir.Expr) -> bool:
    return str(x.ty.dtype).startswith("float")


def _constant(x: ir.Expr, value: float) -> ir.Expr:
    return tirx.const(value, str(x.ty.dtype))


def _divide(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return a / b if _is_float(a) else tirx.truncdiv(a, b)


_UNARY: dict[str, Callable[[ir.Expr], ir.Expr]] = {
    "Abs": lambda x: x if str(x.ty.dtype).startswith("uint") else tirx.abs(x),
    "Neg": lambda x: _constant(x, 0) - x if not _is_float(x) else -x,
    "Exp": tirx.exp,
    "Log": tirx.log,
    "Sqrt": tirx.sqrt,
    "Reciprocal": lambda x: _constant(x, 1) / x,
    "Floor": tirx.floor,
    "Ceil": tirx.ceil,
    "Round": tirx.nearbyint,
    "Tanh": tirx.tanh,
    "Sigmoid": lambda x: _constant(x, 1) / (_constant(x, 1) + tirx.exp(-x)),
    "Erf": tirx.erf,
    "Sin": tirx.sin,
    "Cos": tirx.cos,
    "Tan": tirx.tan,
    "Asin": tirx.asin,
    "Acos": tirx.acos,
    "Atan": tirx.atan,
    "Sinh": tirx.sinh,
    "Cosh": tirx.cosh,
    "Asinh": tirx.asinh,
    "Acosh": tirx.acosh,
    "Atanh": tirx.atanh,
    "Relu": lambda x: tirx.max(x, _constant(x, 0)),
    "Softsign": lambda x: x / (_constant(x, 1) + tirx.abs(x)),
    "Not": tirx.Not,
    "BitwiseNot": tirx.bitwise_not,
}

_BINARY: dict[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _divide,
    "And": tirx.And,
    "Or": tirx.Or,
    "Xor": lambda a, b: a != b,
    "BitwiseAnd": tirx.bitwise_and,
    "BitwiseOr": tirx.bitwise_or,
    "BitwiseXor": tirx.bitwise_xor,
}

_COMPARE: dict[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "Equal": lambda a, b: a == b,
    "Less": lambda a, b: a < b,
    "Greater": lambda a, b: a > b,
    "LessOrEqual": lambda a, b: a <= b,
    "GreaterOrEqual": lambda a, b: a >= b,
}


@operator(*_UNARY)
def unary(ctx: Context, node: Node, x: Value) -> Value:
    return elementwise(ctx, node.op_type.lower(), _UNARY[node.op_type], x)


@operator(*_BINARY)
def binary(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return elementwise(ctx, node.op_type.lower(), _BINARY[node.op_type], a, b)


@operator(*_COMPARE)
def compare(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return elementwise(ctx, node.op_type.lower(), _COMPARE[node.op_type], a, b, dtype="bool")


@operator("Where")
def where(ctx: Context, node: Node, condition: Value, a: Value, b: Value) -> Value:
    return elementwise(ctx, "where", lambda c, x, y: tirx.Select(c, x, y), condition, a, b, dtype=a.dtype)


@operator("Sum", "Max", "Min", "Mean")
def variadic(ctx: Context, node: Node, *inputs: Value) -> Value:
    fold: dict[str, Any] = {"Sum": lambda a, b: a + b, "Mean": lambda a, b: a + b, "Max": tirx.max, "Min": tirx.min}

    def function(*xs: ir.Expr) -> ir.Expr:
        total = reduce(fold[node.op_type], xs)
        return total / _constant(total, len(xs)) if node.op_type == "Mean" else total

    return elementwise(ctx, node.op_type.lower(), function, *inputs)


@operator("Identity")
def identity(ctx: Context, node: Node, x: Value) -> Value:
    return x
