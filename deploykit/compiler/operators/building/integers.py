"""Arithmetic on sizes, axes and positions: Python ints if all operands are plain, else int64 expressions.

Operators whose sizes or positions are operands are written once with these functions. For constants they give ints; for
dims, and for values read at run time, they give expressions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.errors import Unsupported

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

    Condition: TypeAlias = "bool | ir.Expr"


INT64 = np.iinfo(np.int64)
LARGEST_TENSOR = 2**48
"""The most elements of a tensor along its axes of constant size: more than any memory holds, but countable in 64
bits."""


def check_shape(shape: Iterable[object]) -> None:
    """Raises `Unsupported` for a shape that no tensor can have."""
    sizes = [int(n) for n in shape if is_plain(n)]
    for size in sizes:
        if size < 0:
            raise Unsupported(f"a tensor of size {size} along an axis")
    if prod(sizes) > LARGEST_TENSOR:
        raise Unsupported(f"a tensor of {prod(sizes)} elements, more than any memory holds")


def is_plain(value: object) -> TypeGuard[int]:
    """Whether a value is a Python or numpy integer or boolean."""
    return isinstance(value, (int, bool, np.integer, np.bool_))


def all_plain(values: Iterable[object]) -> bool:
    return all(is_plain(v) for v in values)


def expr(value: Any) -> ir.Expr:
    """The int64 expression of a size or of a loop variable. Raises `Unsupported` for a number beyond 64 bits."""
    if is_plain(value) or isinstance(value, tirx.IntImm):
        number = int(value)
        if not INT64.min <= number <= INT64.max:
            raise Unsupported(f"the number {number}, which has more than 64 bits")
        return tirx.IntImm("int64", number)
    return value if str(value.ty.dtype) == "int64" else tirx.Cast("int64", value)


def exprs(values: Iterable[IntExpr]) -> list[ir.Expr]:
    """The int64 expressions of sizes."""
    return [expr(value) for value in values]


def truth(value: Condition) -> ir.Expr:
    """The boolean expression of a condition."""
    return tirx.const(bool(value), "bool") if is_plain(value) else value


def equal(a: IntExpr, b: IntExpr) -> Condition:
    return bool(a == b) if is_plain(a) and is_plain(b) else tirx.EQ(expr(a), expr(b))


def less(a: IntExpr, b: IntExpr) -> Condition:
    return bool(a < b) if is_plain(a) and is_plain(b) else tirx.LT(expr(a), expr(b))


def less_equal(a: IntExpr, b: IntExpr) -> Condition:
    return bool(a <= b) if is_plain(a) and is_plain(b) else tirx.LE(expr(a), expr(b))


def negate(a: Condition) -> Condition:
    return not a if is_plain(a) else tirx.Not(a)


def both(a: Condition, b: Condition) -> Condition:
    if is_plain(a) or is_plain(b):
        plain, other = (a, b) if is_plain(a) else (b, a)
        return other if plain else False
    return tirx.And(a, b)


def either(a: Condition, b: Condition) -> Condition:
    return negate(both(negate(a), negate(b))) if is_plain(a) or is_plain(b) else tirx.Or(a, b)


def all_of(conditions: Iterable[Condition]) -> Condition:
    return reduce(both, conditions, True)


def select(condition: Condition, a: IntExpr, b: IntExpr) -> IntExpr:
    """`a` where the condition holds, else `b`."""
    if is_plain(condition):
        return a if condition else b
    return tirx.Select(condition, expr(a), expr(b))


def minimum(a: IntExpr, b: IntExpr) -> IntExpr:
    """The lesser of two integers. The largest int64, with which a Slice means the end, does not limit the other one."""
    if is_plain(a) and is_plain(b):
        return min(int(a), int(b))
    for limit, other in ((a, b), (b, a)):
        if is_plain(limit) and limit >= np.iinfo(np.int64).max:
            return other
    return tirx.min(expr(a), expr(b))


def maximum(a: IntExpr, b: IntExpr) -> IntExpr:
    return max(int(a), int(b)) if is_plain(a) and is_plain(b) else tirx.max(expr(a), expr(b))


def clamp(value: IntExpr, low: IntExpr, high: IntExpr) -> IntExpr:
    """The nearest value within `low..high`; `low` if that range is empty."""
    return maximum(minimum(value, high), low)


def ceil_div(a: IntExpr, b: IntExpr) -> IntExpr:
    """The least integer that is at least `a / b`."""
    if is_plain(a) and is_plain(b):
        return -(-a // b)
    return tirx.floordiv(expr(a) + (b - 1), expr(b)) if is_plain(b) and b > 0 else -tirx.floordiv(-expr(a), expr(b))


def floor_div(a: IntExpr, b: IntExpr) -> IntExpr:
    return a // b if is_plain(a) and is_plain(b) else tirx.floordiv(expr(a), expr(b))


def floor_mod(a: IntExpr, b: IntExpr) -> IntExpr:
    return a % b if is_plain(a) and is_plain(b) else tirx.floormod(expr(a), expr(b))


def from_end(index: IntExpr, size: IntExpr) -> IntExpr:
    """An index counted from the front, given one whose negative values count from the end."""
    return select(less(index, 0), index + size, index)


def inside(index: IntExpr, size: IntExpr) -> IntExpr:
    """`from_end`, clamped to `0..size-1`, so that an invalid index never leads outside of a tensor."""
    return clamp(from_end(index, size), 0, size - 1)
