"""The value of an expression for given dims, and the variables it depends on.

Values are Python ints, exact at any size. Division and modulo round towards minus infinity (`FloorDiv`, `FloorMod`) or
towards zero (`Div`, `Mod`). Comparisons give 0 or 1. Only the branch of a conditional that is taken is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Values = Mapping[Any, int]
"""Values of variables, by `Var` or by the variable's name."""


def evaluate(expr: IntExpr, values: Values) -> int:
    """The value of `expr`. The value of each variable is given by `Var` or by name.

    Raises:
        KeyError: a variable has no value.
        ZeroDivisionError: a divisor is 0.
        TypeError: `expr` is not an integer expression (it loads from memory, calls a function, is a float).
    """
    if isinstance(expr, int):
        return int(expr)
    rule = _RULES.get(type(expr))
    if rule is None:
        raise TypeError(f"not an integer expression over dims: {expr}")
    return rule(expr, values)


def free_vars(expr: IntExpr) -> tuple[tirx.Var, ...]:
    """The variables of `expr`, each once, in order of appearance."""
    found: dict[tirx.Var, None] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, tirx.Var):
            found[node] = None
        else:
            stack.extend(reversed(operands(node)))
    return tuple(found)


def operands(expr: IntExpr) -> tuple[IntExpr, ...]:
    """The direct sub-expressions of `expr`, in order."""
    rule = _OPERANDS.get(type(expr))
    return tuple(getattr(expr, name) for name in ("a", "b") if hasattr(expr, name)) if rule is None else rule(expr)


def condition_and_branches(expr: Any) -> tuple[Any, Any, Any] | None:
    """`(condition, then, otherwise)` if `expr` is a conditional, else None."""
    if isinstance(expr, tirx.Select):
        return expr.condition, expr.true_value, expr.false_value
    if isinstance(expr, ir.Call) and getattr(expr.op, "name", "") in _CONDITIONAL:
        return expr.args[0], expr.args[1], expr.args[2]
    return None


_OPERANDS: dict[type, Callable[[Any], tuple[IntExpr, ...]]] = {
    **dict.fromkeys((int, bool, tirx.Var, tirx.IntImm), lambda _: ()),
    **dict.fromkeys((tirx.expr.EqualOp, tirx.expr.NotEqualOp), lambda expr: operands(expr.asobject())),
    **dict.fromkeys(
        (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max), lambda expr: (expr.a, expr.b)
    ),
    ir.Call: lambda expr: tuple(expr.args),
    tirx.Select: lambda expr: (expr.condition, expr.true_value, expr.false_value),
    tirx.Cast: lambda expr: (expr.value,),
}
_CONDITIONAL = ("prim.if_then_else", "tirx.if_then_else")
_TRANSPARENT = ("prim.likely", "tirx.likely")


def _variable(expr: Any, values: Values) -> int:
    value = values.get(expr)
    if value is None:
        value = values.get(expr.name)
    if value is None:
        raise KeyError(f"no value for dim '{expr.name}'")
    return int(value)


def _conditional(expr: Any, values: Values) -> int:
    parts = condition_and_branches(expr)
    if parts is None:
        if getattr(expr.op, "name", "") in _TRANSPARENT:
            return evaluate(expr.args[0], values)
        raise TypeError(f"not an integer expression over dims: {expr}")
    condition, then, otherwise = parts
    return evaluate(then if evaluate(condition, values) else otherwise, values)


def _cast(expr: Any, values: Values) -> int:
    if "float" in str(expr.ty):
        raise TypeError(f"not an integer expression over dims: {expr}")
    return evaluate(expr.value, values)


def _truncated_quotient(a: int, b: int) -> int:
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def _binary(apply: Callable[[int, int], int]) -> Callable[[Any, Values], int]:
    return lambda expr, values: int(apply(evaluate(expr.a, values), evaluate(expr.b, values)))


_RULES: dict[type, Callable[[Any, Values], int]] = {
    tirx.Var: _variable,
    tirx.IntImm: lambda expr, _: int(expr.value),
    tirx.Add: _binary(lambda a, b: a + b),
    tirx.Sub: _binary(lambda a, b: a - b),
    tirx.Mul: _binary(lambda a, b: a * b),
    tirx.FloorDiv: _binary(lambda a, b: a // b),
    tirx.FloorMod: _binary(lambda a, b: a % b),
    tirx.Div: _binary(_truncated_quotient),
    tirx.Mod: _binary(lambda a, b: a - b * _truncated_quotient(a, b)),
    tirx.Min: _binary(min),
    tirx.Max: _binary(max),
    tirx.EQ: _binary(lambda a, b: a == b),
    tirx.NE: _binary(lambda a, b: a != b),
    tirx.LT: _binary(lambda a, b: a < b),
    tirx.LE: _binary(lambda a, b: a <= b),
    tirx.GT: _binary(lambda a, b: a > b),
    tirx.GE: _binary(lambda a, b: a >= b),
    tirx.And: lambda expr, values: int(bool(evaluate(expr.a, values)) and bool(evaluate(expr.b, values))),
    tirx.Or: lambda expr, values: int(bool(evaluate(expr.a, values)) or bool(evaluate(expr.b, values))),
    tirx.Not: lambda expr, values: int(not evaluate(expr.a, values)),
    tirx.LShift: _binary(lambda a, b: a << b),
    tirx.RShift: _binary(lambda a, b: a >> b),
    tirx.BitwiseAnd: _binary(lambda a, b: a & b),
    tirx.BitwiseOr: _binary(lambda a, b: a | b),
    tirx.BitwiseXor: _binary(lambda a, b: a ^ b),
    tirx.Cast: _cast,
    tirx.Select: _conditional,
    ir.Call: _conditional,
    tirx.expr.EqualOp: lambda expr, values: evaluate(expr.asobject(), values),
    tirx.expr.NotEqualOp: lambda expr, values: evaluate(expr.asobject(), values),
}
