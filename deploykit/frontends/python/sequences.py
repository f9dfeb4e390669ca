"""What loops go through: how many elements there are, and the element at an index."""

from __future__ import annotations

import ast

from deploykit.compiler.batching.control import Expr, Number, Operation, Word
from deploykit.dynamic.types import LIST_FIRST, Int, width
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.values import (
    SEQUENCES,
    ListValue,
    Range,
    Reversed,
    Scalar,
    Sequence_,
    TupleValue,
    Value,
    Zipped,
    described,
    fields,
    from_words,
)


def sequence_of(value: Value, node: ast.AST) -> Sequence_:
    """The value as something that a loop goes through. Raises `Refused`."""
    if not isinstance(value, SEQUENCES):
        raise Refused(node, f"a loop goes through lists and ranges, found {described(value)}")
    return value


def length(sequence: Sequence_) -> Expr:
    """The number of elements."""
    match sequence:
        case ListValue(handle):
            return Word(handle, 0)
        case Range(_, count):
            return count
        case Reversed(source):
            return length(source)
        case Zipped(sources):
            first, *others = (length(source) for source in sources if not _endless(source))
            for other in others:
                first = Operation("min", (first, other))
            return first


def _endless(sequence: Sequence_) -> bool:
    return isinstance(sequence, Range) and sequence.count == ENDLESS


ENDLESS = Number(2**31 - 1)
"""The number of elements of the range that `enumerate` counts with."""


def element(sequence: Sequence_, index: Expr) -> Value:
    """The element at an index, which is within the sequence."""
    match sequence:
        case ListValue(handle, item):
            words = fields(item, Word(handle, LIST_FIRST), 0, times(index, width(item)))
            return from_words(item, iter(words), varying=sequence.varying)
        case Range(start):
            return Scalar(plus(start, index), Int())
        case Reversed(source):
            last = Operation("-", (length(source), Number(1)))
            return element(source, Operation("-", (last, index)))
        case Zipped(sources):
            return TupleValue(tuple(element(source, index) for source in sources))


def times(value: Expr, factor: int) -> Expr:
    return value if factor == 1 else Operation("*", (value, Number(factor)))


def plus(a: Expr, b: Expr) -> Expr:
    return b if a == Number(0) else Operation("+", (a, b))
