"""Writes float arithmetic in forms that TVM's simplifier leaves alone.

The simplifier treats floats as real numbers without NaN:

    (x + c) - c      simplified: x, although the sum is rounded; x may be infinite     ->    (x + c) + c * -1
    x == x           simplified: true, although x may be NaN                           ->    x <= x and x <= x
    not (x < y)      simplified: y <= x, although either may be NaN                    ->    int(x < y) < 1
    x < y or y < x   simplified: x != y, although either may be NaN                    ->    int(x < y) + int(y < x) > 0

The forms have the same results for all operands. A difference is rewritten if a value that is added, chosen or compared
on one side may equal one on the other side. For this, loads count as equal whatever their indices, because
simplification may find the indices equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad, Var
from tvm.ir.prim import expr as prim

from deploykit.compiler.tir.rewriting import Node, replace_loads, substitute

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm.ir import Expr

EXACT = "deploykit.exact"
"""The attribute of kernels whose rows have the same bits however many there are (`Device.exact`)."""

_ORDERS = (prim.LT, prim.LE, prim.GT, prim.GE)


def inexact(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """Wraps a function of expressions, so that no simplification changes the float arithmetic of its result."""

    def kept(*operands: Expr) -> Expr:
        names = [Var("v", operand.ty) for operand in operands]
        values = dict(zip(names, operands, strict=True))
        return substitute(keep_inexact(function(*names)), values)

    return kept


def keep_inexact(node: Node) -> Node:
    """A PrimFunc or an expression, with float arithmetic in forms that no simplification changes."""
    rules = [(prim.Sub, _difference), (prim.EQ, _equal), (prim.NE, _unequal), (prim.Not, _negation), (prim.Or, _either)]
    kept: Node = tvm_ffi.structural_map(node, rules)
    return kept


def _is_float(value: Expr) -> bool:
    return _element(value).startswith("float")


def _element(value: Expr) -> str:
    return str(value.ty.dtype).partition("x")[0]


def _difference(expr: prim.Sub) -> Expr:
    if not _is_float(expr):
        return expr
    left, right = _terms(expr.a), _terms(expr.b)
    if not any(_same(a, b) for a in left for b in right):
        return expr
    return expr.a + expr.b * tirx.const(-1.0, _element(expr)).astype(str(expr.ty.dtype))


def _terms(value: Expr) -> list[Expr]:
    """A value, and the values that it may be found to consist of."""
    parts: list[Any] = []
    if isinstance(value, prim.Add | prim.Sub | prim.Min | prim.Max):
        parts = [value.a, value.b]
    if isinstance(value, prim.Select):
        parts = [value.true_value, value.false_value]
    return [value, *(term for part in parts for term in _terms(part))]


def _same(a: Expr, b: Expr) -> bool:
    """Whether two values are equal, ignoring the indices of loads."""
    return type(a) is type(b) and bool(tvm_ffi.structural_equal(_anywhere(a), _anywhere(b)))


def _anywhere(value: Expr) -> Expr:
    def load(found: TensorLoad) -> Expr:
        return tirx.BufferLoad(found.source, [tirx.const(0, "int64") for _ in found.indices])

    return replace_loads(value, load)


def _equal(expr: prim.EQ) -> Expr:
    if not _is_float(expr.a) or not _same(expr.a, expr.b):
        return expr
    return tirx.And(prim.LE(expr.a, expr.b), prim.LE(expr.b, expr.a))


def _unequal(expr: prim.NE) -> Expr:
    if not _is_float(expr.a) or not _same(expr.a, expr.b):
        return expr
    return _opposite(tirx.And(prim.LE(expr.a, expr.b), prim.LE(expr.b, expr.a)))


def _negation(expr: prim.Not) -> Expr:
    return _opposite(expr.a) if _orders_floats(expr.a) else expr


def _either(expr: prim.Or) -> Expr:
    left, right = _orders(expr.a), _orders(expr.b)
    if not any(_compares_same(a, b) for a in left for b in right):
        return expr
    dtype = str(expr.ty.dtype).replace("bool", "int32")
    both = tirx.Cast(dtype, expr.a) + tirx.Cast(dtype, expr.b)
    return prim.GT(both, tirx.const(0, "int32").astype(dtype))


def _orders(condition: Expr) -> list[Any]:
    """The comparisons of floats in a condition."""
    if isinstance(condition, prim.And | prim.Or):
        return [*_orders(condition.a), *_orders(condition.b)]
    return [condition] if _orders_floats(condition) else []


def _compares_same(a: Any, b: Any) -> bool:
    """Whether two comparisons are of the same two values, in any order."""
    return (_same(a.a, b.a) and _same(a.b, b.b)) or (_same(a.a, b.b) and _same(a.b, b.a))


def _orders_floats(condition: Expr) -> bool:
    """Whether negating a condition would reverse a comparison of floats inside of it."""
    if isinstance(condition, prim.And | prim.Or):
        return _orders_floats(condition.a) or _orders_floats(condition.b)
    return isinstance(condition, _ORDERS) and _is_float(condition.a)


def _opposite(condition: Expr) -> Expr:
    dtype = str(condition.ty.dtype).replace("bool", "int32")
    return prim.LT(tirx.Cast(dtype, condition), tirx.const(1, "int32").astype(dtype))
