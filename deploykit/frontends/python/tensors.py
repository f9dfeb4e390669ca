"""Operators of tensors, and numbers as tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Number, Real
from deploykit.compiler.batching.operators import OPERATORS, Mismatch
from deploykit.compiler.batching.tensors import Apply, Expression, Filled
from deploykit.dynamic.types import Float, Int
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.values import TENSORS, Scalar, Value, described

OPERANDS = dict.fromkeys(("sigmoid", "tanh", "relu", "exp", "sqrt", "softmax"), 1) | {"maximum": 2, "minimum": 2}
"""How many tensors a function takes. Others take any number, or something else, too."""


def as_real(value: Scalar) -> control.Expr:
    match value.expr:
        case Number(number):
            return Real(float(number))
        case _:
            return value.expr if value.type == Float() else control.AsReal(value.expr)


def as_tensor(value: Value, node: ast.AST) -> Expression:
    """A tensor, or a constant number as one. Raises `Refused`."""
    match value:
        case Scalar(Number(number)) | Scalar(Real(number)):
            return Filled((), float(number))
        case Scalar(expr, Int()):
            return apply("whole", [], node, numbers=(expr,))
        case Scalar(expr, Float()):
            return apply("real", [], node, numbers=(control.FloatWord(expr),))
        case _:
            pass
    if not isinstance(value, TENSORS):
        raise Refused(node, f"a tensor is needed here, found {described(value)}")
    return value


def apply(
    name: str,
    operands: Sequence[Expression],
    node: ast.AST,
    attributes: tuple[int, ...] = (),
    numbers: tuple[control.Expr, ...] = (),
) -> Apply:
    """An operator of tensors. Raises `Refused` if it cannot take operands of these shapes."""
    try:
        shape = OPERATORS[name].shape([operand.shape for operand in operands], attributes)
    except Mismatch as error:
        raise Refused(node, str(error)) from None
    return Apply(shape, name, tuple(operands), attributes, numbers)
