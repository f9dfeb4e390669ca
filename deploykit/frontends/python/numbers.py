"""Numbers that are known without running a module, such as `4 * HIDDEN`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from math import isfinite

from deploykit.frontends.python.source import Refused

ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def arithmetic(op: ast.operator, left: float, right: float) -> int | float | None:
    """The result of one of `ARITHMETIC`; None if it is not finite, or a division by 0."""
    try:
        result: int | float = ARITHMETIC[type(op)](left, right)
        return result if isfinite(result) else None
    except ArithmeticError:
        return None


def number(value: ast.expr, numbers: Mapping[str, int | float]) -> int | float:
    """The value of an expression over numbers. Raises `Refused` if it is not one."""
    match value:
        case ast.Constant(bool()):
            pass
        case ast.Constant(int(found)):
            return found
        case ast.Constant(float(found)) if isfinite(found):
            return found
        case ast.Name(name) if name in numbers:
            return numbers[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -number(operand, numbers)
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            result = arithmetic(op, number(left, numbers), number(right, numbers))
            if result is None:
                raise Refused(value, f"'{ast.unparse(value)[:60]}' is no finite number")
            return result
        case _:
            pass
    raise Refused(value, "a number is needed here, which is known without running the module")
