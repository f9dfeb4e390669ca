"""Lists: new ones, those with further items, and parts of others. A list never changes, so that lists may share items:
`[*items, item]` and `items[:-1]` copy nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Expr, Number, Operation, Word
from deploykit.dynamic.types import LIST_FIRST, LIST_ITEMS, Int, Tuple, Type, width
from deploykit.frontends.python.functions import Reader
from deploykit.frontends.python.reading import evaluate, expression
from deploykit.frontends.python.sequences import element, length, times
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.values import (
    ListValue,
    Scalar,
    TupleValue,
    Value,
    described,
    fields,
    is_varying,
    type_of,
)


@expression(ast.List)
def _read_list(reader: Reader, node: ast.List, _hint: str) -> ListValue:
    """`[a, b]`, `[*items, a]`, which takes the items as they are, and `[a, *items]`."""
    first = next((place for place, item in enumerate(node.elts) if isinstance(item, ast.Starred)), len(node.elts))
    made = _of_items(reader, node, node.elts[:first]) if first or not node.elts else None
    for item in node.elts[first:]:
        if isinstance(item, ast.Starred):
            value = evaluate(reader, item.value)
            if not isinstance(value, ListValue):
                raise Refused(item, f"only a list has items to take, found {described(value)}")
            made = value if made is None else _extended(reader, made, value, item)
        else:
            assert made is not None
            made = append(reader, made, [evaluate(reader, item)], node)
    assert made is not None
    return made


def _of_items(reader: Reader, node: ast.List, elements: Sequence[ast.expr]) -> ListValue:
    items = [evaluate(reader, item) for item in elements]
    kinds = {type_of(item) for item in items}
    if len(kinds) != 1 or None in kinds:
        texts = ", ".join(sorted({described(item) for item in items})) or "nothing"
        raise Refused(node, f"a list has items of one type, found {texts}")
    (kind,) = kinds
    assert kind is not None
    words = reader.words(TupleValue(tuple(items)), node)
    made = new_list(reader, Number(len(items)), kind, "list")
    reader.store(fields(Tuple((kind,) * len(items)), Word(made.handle, LIST_FIRST), 0), words)
    return replace(made, varying=any(map(is_varying, items)))


def _extended(reader: Reader, source: ListValue, items: ListValue, node: ast.AST) -> ListValue:
    """A list with all items of another one behind its own."""
    target = reader.held(source.handle, Int(), "list")
    made = replace(source, handle=target)
    with reader.looped(reader.held(length(items), Int(), "count")) as index:
        reader.emit(control.Set(target, append(reader, made, [element(items, index)], node).handle))
    return replace(made, varying=source.varying or items.varying)


def part_of(reader: Reader, source: ListValue, node: ast.Slice) -> ListValue:
    """`items[first:last]`, with the bounds of Python: those below 0 count from the end, those outside are the ends."""
    if node.step is not None:
        raise Refused(node.step, "a part of a list has no step: write a comprehension")
    count = length(source)
    first = Number(0) if node.lower is None else _bound(reader, node.lower, count)
    last = count if node.upper is None else _bound(reader, node.upper, count)
    size = reader.held(Operation("max", (Operation("-", (last, first)), Number(0))), Int(), "size")
    if first == Number(0):
        (target,) = reader.variables(Int(), "part")
        reader.emit(control.Allocate(target, 2))
        reader.store([Word(target, 0), Word(target, LIST_FIRST)], [size, Word(source.handle, LIST_FIRST)])
        return replace(source, handle=target)
    made = new_list(reader, size, source.item, "part")
    with reader.looped(size) as index:
        words = reader.words(element(source, Operation("+", (first, index))), node)
        reader.store(fields(source.item, Word(made.handle, LIST_FIRST), 0, times(index, width(source.item))), words)
    return replace(source, handle=made.handle)


def _bound(reader: Reader, node: ast.expr, count: Expr) -> Expr:
    """A bound of a part of a list, from 0 to its length."""
    value = evaluate(reader, node)
    if not isinstance(value, Scalar) or value.type != Int():
        raise Refused(node, f"a bound is an int, found {described(value)}")
    if value.expr == Number(0):
        return value.expr
    place = from_end(value.expr, count)
    return reader.held(Operation("min", (Operation("max", (place, Number(0))), count)), Int(), "bound")


def from_end(index: Expr, count: Expr) -> Expr:
    """An index of which those below 0 count from the end."""
    if isinstance(index, Number):
        return index if index.value >= 0 else Operation("-", (count, Number(-index.value)))
    return Operation("from end", (index, count))


def append(reader: Reader, source: ListValue, items: Sequence[Value], node: ast.AST) -> ListValue:
    """A list with further items. Raises `Refused` for items of another type."""
    for item in items:
        words = reader.words(reader.coerced(item, source.item, node, "a further item"), node)
        (target,) = reader.variables(Int(), "list")
        places = fields(source.item, Word(target, 1), 0, times(length(source), width(source.item)))
        reader.emit(control.Append(target, source.handle, width(source.item)))
        reader.store(places, words)
        source = ListValue(target, source.item, source.varying or is_varying(item))
    return source


def new_list(reader: Reader, count: Expr, item: Type, hint: str) -> ListValue:
    """A new list of that length, whose items are not set yet."""
    (target,) = reader.variables(Int(), hint)
    reader.emit(control.Allocate(target, LIST_ITEMS, count, width(item)))
    first = Operation("+", (target, Number(LIST_ITEMS)))
    reader.store([Word(target, offset) for offset in range(LIST_ITEMS)], (count, first, count, count))
    return ListValue(target, item)
