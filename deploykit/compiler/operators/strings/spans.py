"""Tensors of strings: each element says where its UTF-8 bytes are in an array that all elements share.

An element is an int64, `offset + (length << 32)`, called a *span*. Operators that only move elements (Reshape, Gather,
Concat, ...) move spans in the same way as integers: `moved` applies such an operator to the spans. If an operator has
several arrays of bytes, they are concatenated, and spans are shifted. Operators that make new strings take two kernels:
one finds the spans and the number of bytes, the other writes the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Site
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.value import AnyValue, Text, Value
from deploykit.sessions.strings import encode

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context

STRING = "string"
OF_STRINGS = "deploykit.sessions.strings"
"""The domain of operators that treat strings differently from numbers."""

LAST_CHARACTER = 0x10FFFF
LENGTH = 32
"""The lowest bit of the length in a span."""

MOVING = frozenset(
    {
        *("ArrayFeatureExtractor", "Concat", "Compress", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
        *("Identity", "OneHot", "Pad", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "Split"),
        *("Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
    }
)
"""The operators of ONNX whose results are elements of their inputs."""


def is_string(value: object) -> bool:
    return isinstance(value, Value) and value.dtype == STRING


def text_of(ctx: Context, value: Value) -> Text:
    """The spans and bytes of a tensor of strings."""
    if value.text is not None:
        return value.text
    assert value.array is not None
    spans, data = encode(value.array)
    return Text(ctx.constant(spans), ctx.constant(data if data.size else np.zeros(1, np.uint8)))


def string_of(spans: Value, data: Value) -> Value:
    return Value(STRING, spans.shape, text=Text(spans, data))


def flat(ctx: Context, value: Value) -> Value:
    """A tensor as a vector of its elements."""
    return ctx.reshape(value, (ctx.product(value.shape),))


def together(ctx: Context, values: Sequence[Value]) -> tuple[list[Value], Value]:
    """The spans of several tensors in one common array of bytes, and that array."""
    texts = [text_of(ctx, v) for v in values]
    arrays: list[Value] = []
    starts: list[IntExpr] = []
    for text in texts:
        if not any(text.data is a for a in arrays):
            starts.append(ctx.simplify(sum((a.shape[0] for a in arrays), 0)))
            arrays.append(text.data)
    if len(arrays) == 1:
        return [t.spans for t in texts], arrays[0]
    from deploykit.compiler.operators.joining import concat

    start = {id(a): s for a, s in zip(arrays, starts, strict=True)}
    return [_shifted(ctx, t.spans, start[id(t.data)]) for t in texts], concat(ctx, arrays, 0)


def _shifted(ctx: Context, spans: Value, by: IntExpr) -> Value:
    if isinstance(by, int) and by == 0:
        return spans
    return elementwise(ctx, "shifted", lambda span: span + by, spans)


def moved(
    ctx: Context, inputs: Sequence[AnyValue | None], operator: Callable[[list[AnyValue | None]], object]
) -> tuple[AnyValue | None, ...]:
    """The results of an operator of `MOVING` of which some inputs are strings."""
    places = [i for i, v in enumerate(inputs) if is_string(v)]
    spans, data = together(ctx, [v for v in inputs if isinstance(v, Value) and v.dtype == STRING])
    given = list(inputs)
    for place, span in zip(places, spans, strict=True):
        given[place] = span
    result = operator(given)
    results = result if isinstance(result, tuple) else (result,)
    return tuple(string_of(v, data) if isinstance(v, Value) else v for v in results)


def check_spans(ctx: Context, name: str, value: Value) -> None:
    """Check, when a run begins, that the strings of an input lie within its bytes."""
    text = text_of(ctx, value)
    count, size = ctx.product(text.spans.shape), text.data.shape[0]

    def write(code: Code, spans: Array, result: Array) -> None:
        bad = code.cell("bad", 0)
        with code.loop("i", count) as i:
            span = code.cell("span", spans[i])
            past = tirx.any(span.value < 0, start(span.value) + length(span.value) > size)
            bad.value += tirx.Cast("int64", past)
        result[0] = bad.value

    def build(tensor: te.Tensor) -> list[te.Tensor]:
        return imperative("outside", [tensor], [((1,), "int64")], write)

    ctx.site = Site(name=f"strings_of_{name}_outside_of_their_bytes")
    wrong = ctx.kernel("outside", build, ctx.reshape(text.spans, (count,)), dtype="int64")
    ctx.ints(wrong, minimum=0, maximum=0, hint=f"{name}_outside")


# Building blocks of kernels


def start(span: ir.Expr) -> ir.Expr:
    """The position where a string begins."""
    return tirx.bitwise_and(span, tirx.const(0xFFFFFFFF, "int64"))


def length(span: ir.Expr) -> ir.Expr:
    """The number of bytes of a string."""
    return tirx.shift_right(span, tirx.const(LENGTH, "int64"))


def span_of(begin: ir.Expr, count: ir.Expr) -> ir.Expr:
    return begin + tirx.shift_left(count, tirx.const(LENGTH, "int64"))


def same(code: Code, a: ir.Expr, a_data: Array, b: ir.Expr, b_data: Array) -> Cell:
    """A cell that is true if two strings, given by their spans, are equal."""
    left, right = code.cell("left", a), code.cell("right", b)
    agree = code.cell("agree", tirx.EQ(length(left.value), length(right.value)))
    at = code.cell("at", 0)
    with code.repeat(tirx.all(agree.value, at.value < length(left.value))):
        here, there = a_data[start(left.value) + at.value], b_data[start(right.value) + at.value]
        agree.value = tirx.EQ(here, there)
        at.value += 1
    return agree


def copied(code: Code, span: ir.Expr, source: Array, target: Array, at: ir.Expr) -> None:
    """Copy the bytes of a string to `target`, starting at position `at`."""
    piece = code.cell("piece", span)
    with code.loop("k", length(piece.value)) as k:
        target[at + k] = source[start(piece.value) + k]


def code_point(code: Code, data: Array, at: ir.Expr, end: ir.Expr) -> tuple[Cell, Cell]:
    """The character at a position, as a number, and its number of bytes. A byte that begins no character is one by
    itself; its number is above those of all characters."""
    first = code.cell("first", tirx.Cast("int64", data[at]))
    width = code.cell("width", 1)
    for least, bytes_ in ((0xC0, 2), (0xE0, 3), (0xF0, 4)):
        with code.when(first.value >= least):
            width.value = tirx.const(bytes_, "int64")
    alone = tirx.all(first.value >= 0x80, first.value < 0xC0)
    invalid = code.cell("invalid", tirx.any(alone, at + width.value > end, first.value >= 0xF8))
    character = code.cell("character", first.value)
    with code.when(tirx.all(width.value > 1, tirx.Not(invalid.value))):
        mask = tirx.shift_right(tirx.const(0x7F, "int64"), width.value)
        character.value = tirx.bitwise_and(first.value, mask)
        with code.loop("more", width.value - 1) as k:
            byte = code.cell("byte", tirx.Cast("int64", data[at + k + 1]))
            continues = tirx.EQ(tirx.bitwise_and(byte.value, tirx.const(0xC0, "int64")), tirx.const(0x80, "int64"))
            invalid.value = tirx.any(invalid.value, tirx.Not(continues))
            character.value = character.value * 64 + tirx.bitwise_and(byte.value, tirx.const(0x3F, "int64"))
    with code.when(invalid.value):
        width.value = tirx.const(1, "int64")
        character.value = first.value + LAST_CHARACTER + 1
    return character, width


def written(
    ctx: Context,
    name: str,
    shape: Sequence[IntExpr],
    measure: Callable[[Code, ir.Expr, Sequence[Array]], ir.Expr],
    write: Callable[[Code, ir.Expr, ir.Expr, Array, Sequence[Array]], None],
    *operands: Value,
) -> Value:
    """New strings. `measure(code, i, operands)` gives the number of bytes of element `i` (in row-major order), and
    `write(code, i, at, target, operands)` writes them to `target`, starting at `at`."""
    count = ctx.product(shape)

    def find(code: Code, *arrays: Array) -> None:
        *given, spans, total = arrays
        at = code.cell("at", 0)
        with code.loop("i", count) as i:
            size = code.cell("size", measure(code, i, given))
            spans[i] = span_of(at.value, size.value)
            at.value += size.value
        total[0] = at.value

    def build_spans(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative(f"{name}_spans", tensors, [((count,), "int64"), ((1,), "int64")], find)

    spans, total = ctx.kernel(f"{name}_spans", build_spans, *operands, dtype=("int64", "int64"))
    (size,) = ctx.ints(total, minimum=0, maximum=None, hint=f"{name}_bytes")

    def fill(code: Code, *arrays: Array) -> None:
        *given, places, target = arrays
        with code.loop("i", count) as i:
            write(code, i, start(places[i]), target, given)

    def build_bytes(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative(f"{name}_bytes", tensors, [((size,), "uint8")], fill)

    data = ctx.kernel(f"{name}_bytes", build_bytes, *operands, spans, dtype="uint8")
    return string_of(ctx.reshape(spans, shape), data)
