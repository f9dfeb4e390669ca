"""What names and expressions stand for while a function is read.

A tensor is an expression (`compiler.batching.tensors`). Everything else is known by the words that hold it. Sequences
that only a loop uses, such as `range(n)` and `zip(a, b)`, take no words.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from deploykit.compiler.batching.control import Expr, Variable, Word
from deploykit.compiler.batching.tensors import Apply, Expression, Filled, Known, Weight
from deploykit.dynamic.types import (
    Bool,
    Float,
    Int,
    List,
    Rows,
    Tensor,
    Tuple,
    Type,
    Union,
    Variant,
    offsets,
    width,
)


@dataclass(frozen=True)
class Scalar:
    """A number of the control flow."""

    expr: Expr
    type: Int | Bool | Float


@dataclass(frozen=True)
class TupleValue:
    items: tuple[Value, ...]


@dataclass(frozen=True)
class UnionValue:
    """`variant` is the name of the dataclass, where it is known."""

    handle: Expr
    name: str
    variant: str | None = None


@dataclass(frozen=True)
class ListValue:
    """`varying`: its tensors are computed by the loop or the recursion that uses them, one after the other."""

    handle: Expr
    item: Type
    varying: bool = False


@dataclass(frozen=True)
class RowsValue(ListValue):
    """A tensor of the type `Rows`, as the list of its rows."""


@dataclass(frozen=True)
class Unstored:
    """A value that is computed when it is stored. `stored` takes the place in the source and a name for variables."""

    stored: Callable[[ast.AST, str], Value]


@dataclass(frozen=True)
class Range:
    start: Expr
    count: Expr


@dataclass(frozen=True)
class Reversed:
    source: Sequence_


@dataclass(frozen=True)
class Zipped:
    """`zip` of sequences; `enumerate(a)` is that of a range and `a`."""

    sources: tuple[Sequence_, ...]


Sequence_: TypeAlias = ListValue | Range | Reversed | Zipped
Value: TypeAlias = Scalar | TupleValue | UnionValue | Sequence_ | Unstored | Expression

TENSORS = (Known, Weight, Filled, Apply)
SEQUENCES = (ListValue, Range, Reversed, Zipped)


def type_of(value: Value) -> Type | None:
    """The type of a value; None for a sequence that only a loop uses."""
    match value:
        case Scalar(_, kind):
            return kind
        case TupleValue(items):
            kinds = [kind for kind in map(type_of, items) if kind is not None]
            return Tuple(tuple(kinds)) if len(kinds) == len(items) else None
        case UnionValue(_, name):
            return Union(name)
        case RowsValue(_, item):
            return Rows(item)
        case ListValue(_, item):
            return List(item)
        case Known(shape) | Weight(shape) | Filled(shape) | Apply(shape):
            return Tensor(shape)
        case _:
            return None


def described(value: Value) -> str:
    """The type of a value in messages."""
    kind = type_of(value)
    return "a sequence for loops" if kind is None else str(kind)


def is_varying(value: Value) -> bool:
    """Whether a value holds tensors that vary."""
    match value:
        case TupleValue(items):
            return any(map(is_varying, items))
        case ListValue():
            return value.varying
        case Known() | Apply():
            return value.varying
        case _:
            return False


def from_words(kind: Type, words: Iterator[Expr], *, varying: bool) -> Value:
    """The value of a type that is held by the next words. A float is one expression, though it takes two words."""
    match kind:
        case Tuple(items):
            return TupleValue(tuple(from_words(item, words, varying=varying) for item in items))
        case Union(name):
            return UnionValue(next(words), name)
        case Rows(item):
            return RowsValue(next(words), item, varying)
        case List(item):
            return ListValue(next(words), item, varying)
        case Tensor(shape):
            return Known(shape, next(words), varying)
        case _:
            return Scalar(next(words), kind)


def places(kind: Type, slot: int) -> list[Variable]:
    """The variables of a value of a type that begins at `slot`, one for each part."""
    match kind:
        case Tuple(items):
            found: list[Variable] = []
            for item in items:
                found += places(item, slot)
                slot += width(item)
            return found
        case Float():
            return [Variable(slot, real=True)]
        case _:
            return [Variable(slot)]


def fields(kind: Type, handle: Expr, offset: int, index: Expr | None = None) -> list[Word]:
    """The words of a value of a type behind a handle, one for each part."""
    return [Word(handle, place.slot, index, place.real) for place in places(kind, offset)]


def field_of(handle: Expr, variant: Variant, name: str) -> Value:
    """A field of a dataclass behind a handle."""
    kind = dict(variant.fields)[name]
    return from_words(kind, iter(fields(kind, handle, offsets(variant)[name])), varying=False)
