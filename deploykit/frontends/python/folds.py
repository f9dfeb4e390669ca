"""Folds over lists, such as the sum of the items."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Expr, Number, Operation, Variable, Word
from deploykit.compiler.batching.tensors import Known, Shape
from deploykit.dynamic.types import LIST_ITEMS, Int, Tensor
from deploykit.frontends.python.functions import Reader
from deploykit.frontends.python.lists import new_list
from deploykit.frontends.python.sequences import element, length, times
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.tensors import apply, as_tensor
from deploykit.frontends.python.values import ListValue, Value, described


def sum_of_list(reader: Reader, items: ListValue, node: ast.AST) -> Value:
    """The sum of a list of tensors. Raises `Refused`."""
    if not isinstance(items.item, Tensor):
        raise Refused(node, f"'sum' takes a tensor or a list of tensors, found {described(items)}")
    count = reader.held(length(items), Int(), "count")
    reader.emit(control.Require(Operation(">", (count, Number(0))), "the sum of an empty list", count))
    return folded(
        reader, "add", count, lambda index: element(items, index), items.item.shape, node, varying=items.varying
    )


def folded(
    reader: Reader,
    operator: str,
    count: Variable,
    item: Callable[[Expr], Value],
    shape: Shape,
    node: ast.AST,
    *,
    varying: bool,
) -> Known:
    """An associative operator between `count` items, at least one: it joins neighbours until one is left, so the depth
    is logarithmic (a recognised fold). `count` becomes 1."""
    sums = replace(new_list(reader, count, Tensor(shape), "folded"), varying=varying)

    def each(number: Expr, value: Callable[[Expr], Value]) -> None:
        """Set the first items of `sums`."""
        with reader.looped(number) as index:
            reader.store([Word(sums.handle, LIST_ITEMS, index)], reader.words(value(index), node))

    def pair(index: Expr) -> Value:
        first = times(index, 2)
        both = (first, Operation("+", (first, Number(1))))
        return apply(operator, [as_tensor(element(sums, place), node) for place in both], node)

    each(count, item)
    body: list[control.Statement] = [control.If(Operation("<", (count, Number(2))), (control.Break(),))]
    with reader.at(body, reader.scope.copy()):
        half = reader.held(Operation("//", (count, Number(2))), Int(), "half")
        each(half, pair)
        rest = Operation("-", (count, half))
        last = element(sums, Operation("-", (count, Number(1))))
        odd = control.Store(Word(sums.handle, LIST_ITEMS, half), reader.words(last, node)[0])
        reader.emit(control.If(Operation(">", (rest, half)), (odd,)))
        reader.emit(control.Set(count, rest))
    reader.emit(control.Loop(tuple(body)))
    last = element(sums, Number(0))
    assert isinstance(last, Known)
    return last
