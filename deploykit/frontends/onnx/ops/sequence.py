"""Imports the ONNX operators SequenceConstruct, SequenceEmpty, SequenceAt, SequenceInsert, SequenceErase,
SequenceLength, ConcatFromSequence, SplitToSequence, Optional, OptionalHasElement, OptionalGetElement
(`compiler.operators.sequence`).

SequenceMap is defined here only: its body is imported once for each item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deploykit.compiler.operators import sequence as sequences
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import AnyValue, OptionalValue, SequenceValue, StackValue, Value, known
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

if TYPE_CHECKING:
    from deploykit.frontends.onnx.importer import GraphImporter, Scope


@operator("SequenceConstruct")
def sequence_construct(ctx: Context, node: Node, *items: Value) -> SequenceValue:
    return SequenceValue(items)


@operator("SequenceEmpty")
def sequence_empty(ctx: Context, node: Node) -> SequenceValue:
    return SequenceValue((), node.dtype("dtype", "float32"))


@operator("SequenceAt")
def sequence_at(ctx: Context, node: Node, sequence: SequenceValue | StackValue, position: Value) -> Value:
    return sequences.sequence_at(ctx, sequence, position)


@operator("SequenceInsert")
def sequence_insert(
    ctx: Context, node: Node, sequence: SequenceValue | StackValue, item: Value, position: Value | None = None
) -> SequenceValue | StackValue:
    return sequences.sequence_insert(ctx, sequence, item, position)


@operator("SequenceErase")
def sequence_erase(ctx: Context, node: Node, sequence: SequenceValue, position: Value | None = None) -> SequenceValue:
    return sequences.sequence_erase(ctx, sequence, position)


@operator("SequenceLength")
def sequence_length(ctx: Context, node: Node, sequence: SequenceValue | StackValue) -> Value:
    if isinstance(sequence, StackValue) and sequence.joined is not None:
        raise Unsupported("the length of a sequence whose items differ in size is not known")
    length = sequence.stack.shape[0] if isinstance(sequence, StackValue) else len(sequence.items)
    return known(np.asarray(length, object))


@operator("ConcatFromSequence")
def concat_from_sequence(ctx: Context, node: Node, sequence: SequenceValue | StackValue) -> Value:
    return sequences.concat_from_sequence(ctx, sequence, node.int("axis"), new_axis=bool(node.int("new_axis", 0)))


@operator("SplitToSequence")
def split_to_sequence(ctx: Context, node: Node, x: Value, sizes: Value | None = None) -> SequenceValue | StackValue:
    axis, keepdims = node.axis(x.rank, default=0), bool(node.int("keepdims", 1))
    return sequences.split_to_sequence(ctx, x, axis, sizes, keepdims=keepdims)


@operator("SequenceMap")
def sequence_map(
    ctx: Context, node: Node, *inputs: AnyValue, importer: GraphImporter, scope: Scope
) -> tuple[SequenceValue, ...]:
    body = node.graph("body", len(inputs), len(node.outputs))
    first = inputs[0]
    if not isinstance(first, SequenceValue):
        raise Unsupported("its first input is not a sequence")
    if any(isinstance(v, SequenceValue) and len(v.items) != len(first.items) for v in inputs):
        raise Unsupported("its sequences differ in length")
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
    return sequences.optional_has_element(ctx, value)


@operator("OptionalGetElement")
def optional_get_element(ctx: Context, node: Node, value: AnyValue) -> Value | SequenceValue | StackValue:
    return sequences.optional_get_element(ctx, value)
