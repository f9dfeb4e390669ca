"""Tensors whose first extent only a run knows, such as `Tensor["n", 64]`: lists of their rows.

An operator on such tensors is an operator on each row. So the rows of all instances are batched together, however many
each has, and nothing is padded. The operators of an expression are one loop over the rows, and one cell.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TypeAlias

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Expr, Number, Operation, Word
from deploykit.compiler.batching.tensors import Expression, Filled, Known, Shape, is_constant
from deploykit.dynamic.types import LIST_FIRST, Int, Rows, Tensor
from deploykit.frontends.python.folds import folded
from deploykit.frontends.python.functions import Reader
from deploykit.frontends.python.lists import new_list
from deploykit.frontends.python.sequences import element, length
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.tensors import OPERANDS, apply, as_tensor
from deploykit.frontends.python.values import (
    TENSORS,
    ListValue,
    RowsValue,
    Scalar,
    TupleValue,
    Unstored,
    Value,
    described,
    is_varying,
)

Row: TypeAlias = Callable[[Expr], Expression]
"""Gives the row at an index."""


@dataclass(frozen=True)
class RowWise(Unstored):
    """Rows that are computed one by one: `count` of them, of the shape `shape`; `row` gives the one at an index."""

    count: Expr
    shape: Shape
    row: Row
    varying: bool


KINDS = (RowsValue, RowWise)


def _computed(reader: Reader, count: Expr, shape: Shape, row: Row, *, varying: bool) -> RowWise:
    def stored(node: ast.AST, hint: str) -> RowsValue:
        number = reader.held(count, Int(), "count")
        made = new_list(reader, number, Tensor(shape), hint)
        with reader.looped(number) as index:
            reader.store([Word(Word(made.handle, LIST_FIRST), 0, index)], reader.words(row(index), node))
        return RowsValue(made.handle, made.item, varying)

    return RowWise(stored, count, shape, row, varying)


def _row_wise(value: Value) -> RowWise:
    if isinstance(value, RowWise):
        return value
    assert isinstance(value, RowsValue)
    assert isinstance(value.item, Tensor)

    @cache
    def row(index: Expr) -> Expression:
        found = element(value, index)
        assert isinstance(found, Known)
        return found

    return RowWise(lambda *_: value, length(value), value.item.shape, row, value.varying)


def each(
    reader: Reader, name: str, values: Sequence[Value], node: ast.AST, attributes: tuple[int, ...] = ()
) -> RowWise:
    """An operator on each row of the values that have rows; the others are the same for all rows. Raises `Refused`."""
    ranks = {len(_row_wise(value).shape) for value in values if isinstance(value, KINDS)}
    if len(ranks) > 1 or any(isinstance(value, TENSORS) and len(value.shape) > max(ranks) for value in values):
        texts = " and ".join(map(_shown, values))
        raise Refused(node, f"each row of one tensor meets one of the other: they are {texts}")
    return _mapped(reader, name, values, node, attributes)


def _mapped(
    reader: Reader, name: str, values: Sequence[Value], node: ast.AST, attributes: tuple[int, ...] = ()
) -> RowWise:
    """The same without a look at how shapes meet in NumPy."""
    of = {id(value): _row_wise(value) for value in values if isinstance(value, KINDS)}
    fixed = {id(value): _fixed(reader, value, node) for value in values if id(value) not in of}
    first, *others = of.values()
    for other in others:
        _require_equal(reader, first.count, other.count, node)

    def result(taken: Callable[[RowWise], Expression]) -> Expression:
        operands = [taken(of[id(value)]) if id(value) in of else fixed[id(value)] for value in values]
        return apply(name, operands, node, attributes)

    shape = result(lambda rows: Known(rows.shape, Number(0))).shape
    varying = any(operand.varying for operand in (*of.values(), *fixed.values()))
    row = cache(lambda index: result(lambda rows: rows.row(index)))
    return _computed(reader, first.count, shape, row, varying=varying)


def _shown(value: Value) -> str:
    return str(Rows(Tensor(value.shape))) if isinstance(value, RowWise) else described(value)


def _fixed(reader: Reader, value: Value, node: ast.AST) -> Expression:
    """A number, or a tensor that is computed before the rows, which share it."""
    tensor = as_tensor(value, node)
    if not isinstance(value, Scalar) and not is_constant(tensor):
        reader.compute([tensor])
    return tensor


def _require_equal(reader: Reader, count: Expr, other: Expr, node: ast.AST) -> None:
    if count != other:
        text = f"line {getattr(node, 'lineno', 0)}: tensors of different extents, one of {{}}"
        reader.emit(control.Require(Operation("==", (count, other)), text, other))


def operation(reader: Reader, name: str, left: Value, right: Value, node: ast.AST) -> Value:
    """`left + right` and so on, where one has rows. Raises `Refused`."""
    if name != "matmul":
        return each(reader, name, [left, right], node)
    if isinstance(left, KINDS) and not _row_wise(left).shape:
        return _contracted(reader, left, right, node)
    if isinstance(right, KINDS) and (isinstance(left, KINDS) or len(_row_wise(right).shape) < 2):
        raise Refused(node, "a product has no sum over rows but of 'Tensor[\"n\"] @ x', where 'x' has as many rows")
    return _mapped(reader, name, [left, right], node)


def _contracted(reader: Reader, left: Value, right: Value, node: ast.AST) -> Expression:
    """The sum of the rows of `right`, each times its number in `left`."""
    if not isinstance(right, KINDS):
        raise Refused(node, f"on the right there must be as many rows as on the left, found {described(right)}")
    one, other = _row_wise(left), _row_wise(right)
    _require_equal(reader, one.count, other.count, node)

    def row(index: Expr) -> Expression:
        return apply("multiply", [one.row(index), other.row(index)], node)

    rows = _computed(reader, one.count, other.shape, row, varying=one.varying or other.varying)
    return _sum(reader, rows, node)


def _sum(reader: Reader, rows: RowWise, node: ast.AST) -> Expression:
    """The sum of rows, zeros if there are none."""
    (target,) = reader.variables(Int(), "sum")
    count = reader.held(rows.count, Int(), "count")
    some: list[control.Statement] = []
    none: list[control.Statement] = []
    with reader.at(some, reader.scope.copy()):
        total = folded(reader, "add", count, rows.row, rows.shape, node, varying=rows.varying)
        reader.move([target], total, node)
    with reader.at(none, reader.scope.copy()):
        reader.move([target], Filled(rows.shape, 0.0), node)
    reader.emit(control.If(Operation(">", (count, Number(0))), tuple(some), tuple(none)))
    return Known(rows.shape, target, rows.varying)


def reduced(reader: Reader, name: str, value: Value, axes: tuple[int, ...], node: ast.AST) -> Value:
    """`sum` and `mean` of all elements, over the rows (axis 0), or within each row. Raises `Refused`."""
    rows = _row_wise(value)
    rank = 1 + len(rows.shape)
    axis = axes[0] + rank if axes and axes[0] < 0 else axes[0] if axes else 0
    if not 0 <= axis < rank:
        raise Refused(node, f"there is no axis {axes[0]} of {_shown(value)}")
    if axis > 0:
        return each(reader, name, [value], node, (axis - 1,))
    total = _sum(reader, rows, node)
    if not axes:
        total = apply("sum", [total], node)
    if name == "sum":
        return total
    count = as_tensor(Scalar(rows.count, Int()), node)
    size = apply("multiply", [count, Filled((), float(1 if axes else prod(rows.shape)))], node)
    return apply("divide", [total, size], node)


def call(reader: Reader, name: str, values: Sequence[Value], node: ast.AST) -> Value:
    """A function of tensors of which some have rows. Raises `Refused`."""
    if name == "softmax" and len(values) == 1 and not _row_wise(values[0]).shape:
        return _softmax(reader, values[0], node)
    joins = name == "concat" and all(isinstance(value, KINDS) and _row_wise(value).shape for value in values)
    if joins or OPERANDS.get(name) == len(values):
        return each(reader, name, values, node)
    raise Refused(node, f"'{name}' cannot take {' and '.join(map(_shown, values))} in a model")


def _softmax(reader: Reader, value: Value, node: ast.AST) -> Value:
    """exp(x), divided by its sum, of all rows. What they are computed from is computed once."""
    value = value.stored(node, "value") if isinstance(value, RowWise) else value
    rows = _row_wise(value)
    count = reader.held(rows.count, Int(), "count")
    reader.emit(control.Require(Operation(">", (count, Number(0))), "the softmax of an empty tensor", count))
    greatest = folded(reader, "maximum", count, rows.row, (), node, varying=rows.varying)
    shifted = each(reader, "subtract", [value, greatest], node)
    exponents = each(reader, "exp", [shifted], node).stored(node, "exponents")
    return each(reader, "divide", [exponents, _sum(reader, _row_wise(exponents), node)], node)


def split(reader: Reader, value: Value, count: int, node: ast.AST) -> TupleValue:
    """Parts of equal size of each row."""
    if not _row_wise(value).shape:
        raise Refused(node, "the rows of a tensor cannot be split: only a run counts them")
    parts = [each(reader, "part", [value], node, (index, count)) for index in range(count)]
    return TupleValue(tuple(part.stored(node, "part") for part in parts))


def stacked(reader: Reader, value: Value, node: ast.AST) -> RowsValue:
    """`stack(*tensors)`: the tensors of a list as the rows of one, which are not copied."""
    if not isinstance(value, ListValue) or not isinstance(value.item, Tensor):
        raise Refused(node, f"'stack' takes tensors, found {described(value)}")
    count = length(value)
    text = f"line {getattr(node, 'lineno', 0)}: a stack of no tensors"
    reader.emit(control.Require(Operation(">", (count, Number(0))), text, count))
    return RowsValue(value.handle, value.item, is_varying(value))
