"""The tensor expressions of one instance. They stay expressions until control flow needs a handle of their value; then
they become a cell (`cells`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from deploykit.compiler.batching.control import Expr

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Known:
    """A value with a handle. `varying`: it is computed by the loop or the recursion that uses it, one after the
    other."""

    shape: Shape
    handle: Expr
    varying: bool = False


@dataclass(frozen=True, eq=False)
class Weight:
    shape: Shape
    name: str

    varying = False


@dataclass(frozen=True, eq=False)
class Filled:
    """A tensor whose elements are all the same number."""

    shape: Shape
    value: float

    varying = False


@dataclass(frozen=True)
class Joined:
    """What an operator of a cell stands for: how many `operators` of the source it computes, none if it only takes or
    puts together parts of tensors; for how many of its operands' tensors a place was found `beside` each other, and how
    many are copied there (`gathered`)."""

    operators: int = 1
    beside: int = 0
    gathered: int = 0


@dataclass(frozen=True, eq=False)
class Apply:
    """An operator of `operators`, by its name. `numbers` are integers of the control flow, such as the row of an
    embedding."""

    shape: Shape
    operator: str
    operands: tuple[Expression, ...]
    attributes: tuple[int, ...] = ()
    numbers: tuple[Expr, ...] = ()
    joined: Joined = Joined()

    @cached_property
    def varying(self) -> bool:
        return any(operand.varying for operand in self.operands)

    @cached_property
    def constant(self) -> bool:
        return not self.numbers and all(is_constant(operand) for operand in self.operands)


Expression: TypeAlias = Known | Weight | Filled | Apply


def is_constant(node: Expression) -> bool:
    """Whether the value is the same for all instances: it is computed from weights alone."""
    return isinstance(node, Weight | Filled) or (isinstance(node, Apply) and node.constant)
