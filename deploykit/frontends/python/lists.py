"""Lists: new ones, and those with further items. A list never changes: `[*items, item]` shares what both have."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Expr, Number, Operation, Word
from deploykit.dynamic.types import LIST_ITEMS, Int, Tuple, Type, width
from deploykit.frontends.python.functions import Reader
from deploykit.frontends.python.reading import evaluate, expression
from deploykit.frontends.python.sequences import times
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.values import (
    ListValue,
    TupleValue,
    Value,
    described,
    fields,
    is_varying,
    type_of,
)


@expression(ast.List)
def _read_list(reader: Reader, node: ast.List, _hint: str) -> ListValue:
    """`[a, b]`, and `[*items, a]`, which takes the items as they are."""
    if node.elts and isinstance(node.elts[0], ast.Starred):
        source = evaluate(reader, node.elts[0].value)
        return append(reader, source, [evaluate(reader, item) for item in node.elts[1:]], node)
    items = [evaluate(reader, item) for item in node.elts]
    kinds = {type_of(item) for item in items}
    if len(kinds) != 1 or None in kinds:
        texts = ", ".join(sorted({described(item) for item in items})) or "nothing"
        raise Refused(node, f"a list has items of one type, found {texts}")
    (kind,) = kinds
    assert kind is not None
    words = reader.words(TupleValue(tuple(items)), node)
    made = new_list(reader, Number(len(items)), kind, "list")
    reader.store(fields(Tuple((kind,) * len(items)), Word(made.handle, 1), 0), words)
    return replace(made, varying=any(map(is_varying, items)))


def append(reader: Reader, source: Value, items: Sequence[Value], node: ast.AST) -> ListValue:
    """A list with further items. Raises `Refused` for items of another type."""
    if not isinstance(source, ListValue):
        raise Refused(node, f"only a list has items to take, found {described(source)}")
    for item in items:
        words = reader.words(reader.coerced(item, source.item, node, "a further item"), node)
        (target,) = reader.variables(Int(), "list")
        length = Word(source.handle, 0)
        places = fields(source.item, Word(target, 1), 0, times(length, width(source.item)))
        reader.emit(control.Append(target, source.handle, width(source.item)))
        reader.store(places, words)
        source = ListValue(target, source.item, source.varying or is_varying(item))
    return source


def new_list(reader: Reader, length: Expr, item: Type, hint: str) -> ListValue:
    """A new list of that length, whose items are not set yet."""
    (target,) = reader.variables(Int(), hint)
    reader.emit(control.Allocate(target, LIST_ITEMS, length, width(item)))
    first = Operation("+", (target, Number(LIST_ITEMS)))
    reader.store([Word(target, offset) for offset in range(LIST_ITEMS)], (length, first, length, length))
    return ListValue(target, item)
