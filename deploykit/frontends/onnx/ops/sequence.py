"""ONNX: SequenceConstruct, SequenceEmpty, SequenceAt, SequenceInsert, SequenceErase, SequenceLength,
ConcatFromSequence, SplitToSequence, SequenceMap, Optional, OptionalHasElement, OptionalGetElement
(`compiler.operators.sequence`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deploykit.compiler.dims.text import to_text
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.sequence import chosen, picked_of, position_of
from deploykit.compiler.operators.slicing import split
from deploykit.compiler.operators.value import AnyValue, OptionalValue, SequenceValue, Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.frontends.onnx.importer import GraphImporter, Scope


@operator("SequenceConstruct")
def sequence_construct(ctx: Context, node: Node, *items: Value) -> SequenceValue:
    return SequenceValue(items)


@operator("SequenceEmpty")
def sequence_empty(ctx: Context, node: Node) -> SequenceValue:
    return SequenceValue((), node.dtype("dtype", "float32"))


@operator("SequenceAt")
def sequence_at(ctx: Context, node: Node, sequence: SequenceValue, position: Value) -> Value:
    items = sequence.items
    where = position_of(ctx, position, len(items), len(items) - 1)
    return items[where] if isinstance(where, int) else picked_of(ctx, where, items)


@operator("SequenceInsert")
def sequence_insert(
    ctx: Context, node: Node, sequence: SequenceValue, item: Value, position: Value | None = None
) -> SequenceValue:
    items, count = sequence.items, len(sequence.items)
    where = count if position is None else position_of(ctx, position, count, count)
    if isinstance(where, int):
        return SequenceValue((*items[:where], item, *items[where:]), sequence.dtype)
    choices = [(*items[:w], item, *items[w:]) for w in range(count + 1)]
    return chosen(ctx, where, choices, sequence.dtype)


@operator("SequenceErase")
def sequence_erase(ctx: Context, node: Node, sequence: SequenceValue, position: Value | None = None) -> SequenceValue:
    items, count = sequence.items, len(sequence.items)
    where = count - 1 if position is None else position_of(ctx, position, count, count - 1)
    if isinstance(where, int):
        return SequenceValue((*items[:where], *items[where + 1 :]), sequence.dtype)
    choices = [(*items[:w], *items[w + 1 :]) for w in range(count)]
    return chosen(ctx, where, choices, sequence.dtype)


@operator("SequenceLength")
def sequence_length(ctx: Context, node: Node, sequence: SequenceValue) -> Value:
    return ctx.constant(np.asarray(len(sequence.items), np.int64))


@operator("ConcatFromSequence")
def concat_from_sequence(ctx: Context, node: Node, sequence: SequenceValue) -> Value:
    items = list(sequence.items)
    if not items:
        raise Unsupported("the sequence is empty")
    stacked = bool(node.int("new_axis", 0))
    axis = node.axis(items[0].rank + stacked)
    if stacked:
        items = [ctx.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in items]
    return concat(ctx, items, axis)


@operator("SplitToSequence")
def split_to_sequence(ctx: Context, node: Node, x: Value, sizes: Value | None = None) -> SequenceValue:
    axis = node.axis(x.rank, default=0)
    extent = x.shape[axis]
    if sizes is not None and sizes.rank == 1:
        return SequenceValue(split(ctx, x, axis, ctx.ints(sizes, minimum=0, maximum=extent)), x.dtype)
    piece: IntExpr = 1 if sizes is None else ctx.ints(sizes)[0]
    if not isinstance(piece, int) or not isinstance(extent, int) or piece < 1:
        raise Unsupported(
            f"axis {axis} of size {to_text(extent)} is split in pieces of {to_text(piece)}: "
            "how many is not known at import"
        )
    pieces = split(ctx, x, axis, [min(piece, extent - start) for start in range(0, extent, piece)])
    if sizes is None and not node.int("keepdims", 1):
        pieces = tuple(ctx.reshape(p, (*p.shape[:axis], *p.shape[axis + 1 :])) for p in pieces)
    return SequenceValue(pieces, x.dtype)


@operator("SequenceMap")
def sequence_map(
    ctx: Context, node: Node, *inputs: AnyValue, importer: GraphImporter, scope: Scope
) -> tuple[SequenceValue, ...]:
    body = node.graph("body")
    first = inputs[0]
    if not isinstance(first, SequenceValue):
        raise Unsupported("its first input is not a sequence")
    rows: list[list[AnyValue | None]] = []
    for position in range(len(first.items)):
        local = dict(scope)
        for declared, value in zip(body.inputs, inputs, strict=True):
            local[declared.name or ""] = value.items[position] if isinstance(value, SequenceValue) else value
        importer.graph(ctx, body, local)
        rows.append([local.get(v.name or "") for v in body.outputs])
    columns = [[row[k] for row in rows] for k in range(len(body.outputs))]
    return tuple(SequenceValue(tuple(v for v in column if isinstance(v, Value))) for column in columns)


@operator("Optional")
def optional(ctx: Context, node: Node, item: Value | SequenceValue | None = None) -> OptionalValue:
    return OptionalValue(item)


@operator("OptionalHasElement")
def optional_has_element(ctx: Context, node: Node, value: AnyValue | None = None) -> Value:
    if isinstance(value, OptionalValue) and value.present is not None:
        return value.present
    present = value.item is not None if isinstance(value, OptionalValue) else value is not None
    return ctx.constant(np.asarray(present))


@operator("OptionalGetElement")
def optional_get_element(ctx: Context, node: Node, value: AnyValue) -> Value | SequenceValue:
    if not isinstance(value, OptionalValue):
        return value
    if value.item is None:
        raise Unsupported("the optional is empty")
    if value.present is not None:
        ctx.ints(ctx.cast(value.present, "int64"), minimum=1, maximum=1, hint="optional_is_there")
    return value.item
