"""Elementwise operators of several operands: arithmetic, comparison, logic, bits, selection.

All of them broadcast in both directions. Integers wrap around. Integer division truncates. `modulo` has the sign of the
divisor, or of the dividend if it truncates. Division and modulo by zero give zero for integers. A shift by less than 0
or by all bits leaves only the sign. `power` of integers is computed in double precision.

`broadcast.elementwise` makes an operator of a function of elements. The functions that TVM does not have are here.
(Source: ONNX operators Add to Where, Broadcasting.md.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import broadcast, broadcast_index, elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.elementwise import is_float, like, reciprocal

Binary: TypeAlias = Callable[[ir.Expr, ir.Expr], ir.Expr]


def divide(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return a / b if is_float(a) else tirx.truncdiv(a, b)


def equal(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return tirx.EQ(_number(a), _number(b))


def unequal(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return tirx.NE(_number(a), _number(b))


def fold(ctx: Context, name: str, function: Binary, *inputs: Value) -> Value:
    """`function` applied to any number of inputs from left to right. A single input is the result."""
    if len(inputs) == 1:
        return inputs[0]
    return elementwise(ctx, name, lambda *xs: reduce(function, xs), *inputs)


def mean(ctx: Context, *inputs: Value) -> Value:
    """The elementwise mean of several tensors. A single input is the result."""
    if len(inputs) == 1:
        return inputs[0]

    def function(*xs: ir.Expr) -> ir.Expr:
        total = reduce(lambda a, b: a + b, xs)
        return total / like(total, len(xs))

    return elementwise(ctx, "mean", function, *inputs)


def modulo(ctx: Context, a: Value, b: Value, *, truncates: bool = False) -> Value:
    """The remainder of `a` divided by `b`, with the sign of `b`, or with the sign of `a` if the division
    `truncates`."""

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


def bit_shift(ctx: Context, a: Value, b: Value, *, left: bool) -> Value:
    """The bits of integers `a` shifted by `b` places, to the left or to the right."""
    signed = a.dtype.startswith("int")
    bits = int(a.dtype.removeprefix("u").removeprefix("int"))

    def function(x: ir.Expr, y: ir.Expr) -> ir.Expr:
        possible = tirx.all(y >= like(y, 0), y < like(y, bits)) if signed else y < like(y, bits)
        if left:
            return tirx.Select(possible, x << y, like(x, 0))
        sign = tirx.Select(x < like(x, 0), like(x, -1), like(x, 0)) if signed else like(x, 0)
        return tirx.Select(possible, x >> y, sign)

    return elementwise(ctx, "bitshift", function, a, b)


def power(ctx: Context, a: Value, b: Value) -> Value:
    """`a` to the power of `b`, in the dtype of `a`."""
    exponent = _single(b) if b.rank <= a.rank else None
    if exponent is not None and exponent in _POWERS and (exponent > 0 or a.dtype.startswith(("float", "bfloat"))):
        return elementwise(ctx, "pow", _POWERS[exponent], a)

    def function(x: ir.Expr, y: ir.Expr) -> ir.Expr:
        if is_float(x):
            return tirx.power(x, tirx.Cast(x.ty.dtype, y))
        return tirx.power(tirx.Cast("float64", x), tirx.Cast("float64", y))

    return elementwise(ctx, "pow", function, a, b)


def where(ctx: Context, condition: Value, a: Value, b: Value) -> Value:
    """Elements of `a` where the condition holds, else of `b`. `a` and `b` have the same dtype."""
    shape = broadcast(ctx, condition, a, b)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            pairs = zip(tensors, (condition, a, b), strict=True)
            return tirx.Select(*(t(*broadcast_index(ctx, v.shape, shape, index)) for t, v in pairs))

        return compute(shape, element, name="where")

    return ctx.kernel("where", build, condition, a, b, dtype=a.dtype)


_POWERS: Mapping[float, Callable[[ir.Expr], ir.Expr]] = {
    -1.0: reciprocal,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
}


def _number(x: ir.Expr) -> ir.Expr:
    """A boolean as an integer, which every target can compare."""
    return tirx.Cast("uint8", x) if str(x.ty.dtype) == "bool" else x


def _single(value: Value) -> float | None:
    """The value of a constant with one element; None for other values."""
    if value.array is None or value.array.size != 1:
        return None
    return float(value.array.astype(np.float64).reshape(()))
