"""Evaluates the formulas over dims in artifacts, such as `64*ceil(5*batch/8) + max(seq, 2)`, at given sizes.

The arithmetic is exact. `/` occurs only under `floor`, `ceil` and `trunc`; `%` is never negative for a positive
divisor; `a if c else b` is a conditional. A dim whose name is not a plain word is quoted: `4*"seq len"`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction

from deploykit.errors import ArtifactError

_BINARY: dict[type[ast.AST], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: lambda a, b: a % b,
}
_COMPARISONS: dict[type[ast.AST], Callable[[Fraction, Fraction], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Fraction]] = {
    "floor": lambda a: Fraction(math.floor(a)),
    "ceil": lambda a: Fraction(math.ceil(a)),
    "trunc": lambda a: Fraction(math.trunc(a)),
    "max": max,
    "min": min,
}


def evaluate(formula: str, sizes: Mapping[str, int]) -> int:
    """The value of `formula` with the dims at these sizes, given by name.

    Raises `ArtifactError` if `formula` is not a formula over these dims.
    """
    try:
        value = _value(ast.parse(formula, mode="eval").body, {name: Fraction(size) for name, size in sizes.items()})
    except (SyntaxError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError) as error:
        raise ArtifactError(f"cannot read '{formula}' as a formula over {', '.join(sizes) or 'no dims'}") from error
    return int(value)


def _value(node: ast.expr, sizes: Mapping[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.Name(id=name) | ast.Constant(value=str(name)):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Fraction(not _value(operand, sizes))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return Fraction(_COMPARISONS[type(op)](_value(left, sizes), _value(right, sizes)))
        case ast.BoolOp(op=op, values=values):
            combine = all if isinstance(op, ast.And) else any
            return Fraction(combine(bool(_value(value, sizes)) for value in values))
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return _value(then if _value(test, sizes) else otherwise, sizes)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_value(argument, sizes) for argument in arguments))
        case _:
            raise ValueError(ast.dump(node))
