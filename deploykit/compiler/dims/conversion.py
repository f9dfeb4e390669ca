"""Converts between TVM expressions and normal forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import ir, sym, tirx

from deploykit.compiler.dims.evaluate import condition_and_branches, free_vars, operands
from deploykit.compiler.dims.polynomial import Atom, Monomial, Polynomial, apply, factors, ordered_terms, truncdiv
from deploykit.compiler.dims.ranges import LARGEST

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


MOST_NODES = 100
"""The most nodes of an expression that is passed to TVM, whose rules take time exponential in nested conditionals."""


def is_small(expr: IntExpr, limit: int = MOST_NODES) -> bool:
    """Whether `expr` has at most `limit` nodes. A shared node counts as often as it occurs."""
    waiting: list[IntExpr] = [expr]
    seen = 0
    while waiting and seen <= limit:
        waiting.extend(operands(waiting.pop()))
        seen += 1
    return seen <= limit


def polynomial(expr: IntExpr) -> Polynomial:
    """The normal form of `expr`. Anything other than integer arithmetic becomes an opaque atom."""
    if isinstance(expr, int):
        return Polynomial.constant(int(expr))
    rule = _FROM.get(type(expr), _opaque)
    return rule(expr)


def simplify(expr: IntExpr) -> IntExpr:
    """An expression of equal value: an int if constant, else the shorter of the normal form and TVM's simplification.

    Only small expressions are passed to TVM."""
    if isinstance(expr, int | tirx.Var):
        return expr
    expr = as_expr(expr)
    p = polynomial(expr)
    normal = expression(p, boolean=str(expr.ty) == "bool")
    if isinstance(normal, int | tirx.IntImm):
        return int(normal)
    if all(atom.var is not None for atom in p.atoms) or not is_small(expr):
        return normal
    rewritten = sym.Analyzer().simplify(expr)
    if isinstance(rewritten, tirx.IntImm):
        return int(rewritten.value)
    return rewritten if _node_count(rewritten) < _node_count(normal) else normal


def expression(p: Polynomial, *, boolean: bool = False) -> IntExpr:
    """`p` as an int if constant, else as a TVM expression. With `boolean`, the result is a condition."""
    constant = p.value()
    if constant is not None:
        return tirx.IntImm("bool", int(constant != 0)) if boolean else constant
    if boolean:
        return _condition(p)
    content, parts = factors(p)
    if len(parts) == 1:
        return _sum(p)
    return reduce(mul, (_sum(part) for part in parts)) * content


def _condition(p: Polynomial) -> Any:
    atom = p.atoms[0]
    if p.terms == {(atom,): 1} and atom.operator in _CONDITIONS:
        return _atom_expression(atom)
    return tirx.NE(as_expr(expression(p)), tirx.IntImm("int64", 0))


def _sum(p: Polynomial) -> Any:
    (monomial, coefficient), *rest = ordered_terms(p)
    total = _term(monomial, coefficient)
    for monomial, coefficient in rest:
        # The lowest int64 has no counterpart to subtract.
        if coefficient > 0 or coefficient == -LARGEST - 1:
            total = total + _term(monomial, coefficient)
        else:
            total = total - _term(monomial, -coefficient)
    return total


def _term(monomial: Monomial, coefficient: int) -> Any:
    if not monomial:
        return coefficient
    product = reduce(mul, (_integer(_atom_expression(atom)) for atom in monomial))
    return product if coefficient == 1 else product * coefficient


_CONDITIONS = ("eq", "ne", "lt", "le", "and", "or", "not")

_TO_EXPR: dict[str, Callable[..., Any]] = {
    "floordiv": tirx.floordiv,
    "floormod": tirx.floormod,
    "truncdiv": tirx.truncdiv,
    "eq": tirx.EQ,
    "ne": tirx.NE,
    "lt": tirx.LT,
    "le": tirx.LE,
    "and": tirx.And,
    "or": tirx.Or,
    "not": tirx.Not,
}


def _atom_expression(atom: Atom) -> Any:
    if atom.var is not None:
        return atom.var
    if atom.opaque is not None:
        return atom.opaque
    if atom.operator in ("and", "or", "not"):
        return _TO_EXPR[atom.operator](*(expression(p, boolean=True) for p in atom.operands))
    if atom.operator == "select":
        condition, then, otherwise = atom.operands
        return tirx.Select(
            expression(condition, boolean=True), as_expr(expression(then)), as_expr(expression(otherwise))
        )
    arguments = [as_expr(expression(p)) for p in atom.operands]
    if atom.operator in ("max", "min"):
        return reduce(tirx.max if atom.operator == "max" else tirx.min, arguments)
    return _TO_EXPR[atom.operator](*arguments)


def _integer(expr: Any) -> Any:
    return tirx.Cast("int64", expr) if str(expr.ty) == "bool" else expr


def as_expr(expr: IntExpr) -> Any:
    """`expr` as a TVM expression; a Python int becomes an int64 constant."""
    if isinstance(expr, int):
        return tirx.IntImm("int64", expr)
    return expr.asobject() if hasattr(expr, "asobject") else expr


def substitute(expr: IntExpr, values: Mapping[tirx.Var, IntExpr]) -> IntExpr:
    """`expr` with variables replaced by their values, simplified."""
    if isinstance(expr, int):
        return expr
    known = {var: as_expr(value) for var, value in values.items()}
    return simplify(tvm_ffi.structural_map(expr, (ir.Var, lambda var: known.get(var, var)), order="post"))


def _node_count(expr: IntExpr) -> int:
    return 1 + sum(_node_count(part) for part in operands(expr))


def _opaque(expr: Any) -> Polynomial:
    if isinstance(expr, tirx.expr.ExprOp) and hasattr(expr, "asobject"):
        return polynomial(expr.asobject())
    key = f"{expr}@{','.join(f'{hash(var):x}' for var in free_vars(expr))}"
    return Polynomial({(Atom(key, "opaque", opaque=expr),): 1})


def _conditional(expr: Any) -> Polynomial:
    parts = condition_and_branches(expr)
    if parts is None:
        return _opaque(expr)
    return apply("select", (polynomial(part) for part in parts))


def _cast(expr: Any) -> Polynomial:
    kinds = {str(expr.ty), str(expr.value.ty)}
    return polynomial(expr.value) if kinds <= {"int64", "int32", "bool"} else _opaque(expr)


def _binary(apply_to: Callable[[Polynomial, Polynomial], Polynomial]) -> Callable[[Any], Polynomial]:
    return lambda expr: apply_to(polynomial(expr.a), polynomial(expr.b))


def _shift(expr: Any, apply_to: Callable[[Polynomial, int], Polynomial]) -> Polynomial:
    bits = polynomial(expr.b).value()
    return apply_to(polynomial(expr.a), 1 << bits) if bits is not None and 0 <= bits < 64 else _opaque(expr)


def _operator(name: str, *, mirrored: bool = False) -> Callable[[Any], Polynomial]:
    if mirrored:
        return lambda expr: apply(name, (polynomial(expr.b), polynomial(expr.a)))
    return lambda expr: apply(name, (polynomial(expr.a), polynomial(expr.b)))


_FROM: dict[type, Callable[[Any], Polynomial]] = {
    tirx.Var: Polynomial.variable,
    tirx.IntImm: lambda expr: Polynomial.constant(int(expr.value)),
    tirx.Add: _binary(lambda a, b: a + b),
    tirx.Sub: _binary(lambda a, b: a - b),
    tirx.Mul: _binary(lambda a, b: a * b),
    tirx.FloorDiv: _operator("floordiv"),
    tirx.FloorMod: _operator("floormod"),
    tirx.Div: _binary(truncdiv),
    tirx.Mod: _binary(lambda a, b: a - b * truncdiv(a, b)),
    tirx.LShift: lambda expr: _shift(expr, lambda a, power: a.scaled(power)),
    tirx.RShift: lambda expr: _shift(expr, lambda a, power: apply("floordiv", (a, Polynomial.constant(power)))),
    tirx.Max: _operator("max"),
    tirx.Min: _operator("min"),
    tirx.EQ: _operator("eq"),
    tirx.NE: _operator("ne"),
    tirx.LT: _operator("lt"),
    tirx.LE: _operator("le"),
    tirx.GT: _operator("lt", mirrored=True),
    tirx.GE: _operator("le", mirrored=True),
    tirx.And: _operator("and"),
    tirx.Or: _operator("or"),
    tirx.Not: lambda expr: apply("not", (polynomial(expr.a),)),
    tirx.Cast: _cast,
    tirx.Select: _conditional,
    ir.Call: _conditional,
}
