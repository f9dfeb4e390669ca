"""Operators on strings: Equal, StringConcat, RegexFullMatch, StringSplit, lookup in a list of strings, and ranks.

Without a delimiter, StringSplit splits at whitespace as Python does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.sorting import merge_sort
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.strings.regular_expressions import compiled
from deploykit.compiler.operators.strings.spans import (
    code_point,
    copied,
    flat,
    length,
    same,
    span_of,
    start,
    string_of,
    text_of,
    written,
)

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Put: TypeAlias = Callable[[ir.Expr, ir.Expr], None]
Scan: TypeAlias = Callable[[Code, ir.Expr, Sequence[Array], Put], Cell]

_WHITESPACE = tuple(c for c in range(0x3001) if chr(c).isspace())


def equal_strings(ctx: Context, a: Value, b: Value) -> Value:
    """Whether each string of `a` equals that of `b`, with broadcasting."""
    left, right, one_data, other_data = _broadcast(ctx, a, b)
    count = ctx.product(left.shape)

    def write(code: Code, *arrays: Array) -> None:
        mine, theirs, one, other, result = arrays
        with code.loop("i", count) as i:
            result[i] = same(code, mine[i], one, theirs[i], other).value

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("equal_strings", tensors, [((count,), "bool")], write)

    operands = (flat(ctx, left), flat(ctx, right), one_data, other_data)
    return ctx.reshape(ctx.kernel("equal_strings", build, *operands, dtype="bool"), left.shape)


def string_concat(ctx: Context, a: Value, b: Value) -> Value:
    """Each string of `a` followed by that of `b`, with broadcasting."""
    left, right, one_data, other_data = _broadcast(ctx, a, b)

    def measure(code: Code, i: ir.Expr, given: Sequence[Array]) -> ir.Expr:
        return length(given[0][i]) + length(given[1][i])

    def write(code: Code, i: ir.Expr, at: ir.Expr, target: Array, given: Sequence[Array]) -> None:
        mine, theirs, one, other = given
        copied(code, mine[i], one, target, at)
        copied(code, theirs[i], other, target, at + length(mine[i]))

    operands = (flat(ctx, left), flat(ctx, right), one_data, other_data)
    return written(ctx, "concatenated", left.shape, measure, write, *operands)


def regex_full_match(ctx: Context, x: Value, pattern: str) -> Value:
    """Whether each string as a whole matches a regular expression (`regular_expressions`)."""
    text, automaton = text_of(ctx, x), compiled(pattern)
    count = ctx.product(x.shape)
    tables = (automaton.classes, automaton.table, automaton.accepts)

    def write(code: Code, *arrays: Array) -> None:
        spans, data, classes, table, accepts, result = arrays
        with code.loop("i", count) as i:
            span = code.cell("span", spans[i])
            state = code.cell("state", 0)
            with code.loop("k", length(span.value)) as k:
                byte = tirx.Cast("int64", data[start(span.value) + k])
                state.value = tirx.Cast("int64", table[state.value, tirx.Cast("int64", classes[byte])])
            result[i] = accepts[state.value]

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("full_match", tensors, [((count,), "bool")], write)

    operands = (flat(ctx, text.spans), text.data, *map(ctx.constant, tables))
    return ctx.reshape(ctx.kernel("full_match", build, *operands, dtype="bool"), x.shape)


def string_split(ctx: Context, x: Value, delimiter: str = "", limit: int | None = None) -> tuple[Value, Value]:
    """The pieces `[..., most]` of each string of `x`, `[...]`, followed by empty strings, and the number of pieces. An
    empty delimiter means whitespace. A string is split at most `limit` times."""
    text, separator = text_of(ctx, x), delimiter.encode()

    def scan(code: Code, span: ir.Expr, given: Sequence[Array], put: Put) -> Cell:
        return _split(code, span, given[0], separator, limit, put)

    spans, counts = pieces(ctx, text.spans, scan, text.data, most=None if limit is None else limit + 1)
    return string_of(spans, text.data), counts


def pieces(
    ctx: Context, strings: Value, scan: Scan, *operands: Value, most: IntExpr | None = None
) -> tuple[Value, Value]:
    """The spans `[..., width]` of pieces of each string, followed by spans of 0, and the number of pieces of each,
    `[...]`. `strings` are spans. `scan(code, span, operands, put)` writes statements that call `put(number, span)` for
    the pieces of a string, at most `most`, and returns a cell with their number. Two kernels scan in the same way: one
    counts the pieces, the other writes their spans."""
    count, spans_of_all = ctx.product(strings.shape), flat(ctx, strings)

    def count_pieces(code: Code, spans: Array, *arrays: Array) -> None:
        *given, counts, largest = arrays
        largest[0] = tirx.const(0, "int64")
        with code.loop("i", count) as i:
            found = scan(code, spans[i], given, lambda *_: None)
            counts[i] = found.value
            largest[0] = tirx.max(largest[0], found.value)

    def build_counts(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("pieces", tensors, [((count,), "int64"), ((1,), "int64")], count_pieces)

    counts, largest = ctx.kernel("pieces", build_counts, spans_of_all, *operands, dtype=("int64", "int64"))
    (width,) = ctx.ints(largest, minimum=0, maximum=most, hint="pieces")

    def place(code: Code, spans: Array, *arrays: Array) -> None:
        *given, result = arrays
        with code.loop("i", count) as i:
            with code.loop("j", width) as j:
                result[i, j] = tirx.const(0, "int64")
            scan(code, spans[i], given, lambda j, span: result.__setitem__((i, j), span))

    def build_pieces(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("split", tensors, [((count, width), "int64")], place)

    found = ctx.kernel("split", build_pieces, spans_of_all, *operands, dtype="int64")
    return ctx.reshape(found, (*strings.shape, width)), ctx.reshape(counts, strings.shape)


def lookup(ctx: Context, x: Value, keys: Sequence[str], labels: Value) -> Value:
    """For each string, the element of `labels` at the string's position in `keys`, or the last one if it has none."""
    text = text_of(ctx, x)
    ordered = sorted(range(len(keys)), key=lambda i: keys[i].encode())
    names = text_of(ctx, ctx.constant(np.array([keys[i] for i in ordered], object)))
    places, count = ctx.constant(np.array(ordered, np.int64)), ctx.product(x.shape)

    def write(code: Code, *arrays: Array) -> None:
        spans, data, key_spans, key_data, places_, labels_, result = arrays
        with code.loop("i", count) as i:
            low, high = code.cell("low", 0), code.cell("high", len(keys))
            result[i] = labels_[len(keys)]
            with code.repeat(low.value < high.value):
                middle = code.cell("middle", tirx.shift_right(low.value + high.value, tirx.const(1, "int64")))
                order = _compared(code, key_spans[middle.value], key_data, spans[i], data)
                with code.when(tirx.EQ(order.value, tirx.const(0, "int64"))):
                    result[i] = labels_[places_[middle.value]]
                    low.value = high.value
                with code.when(order.value < 0):
                    low.value = middle.value + 1
                with code.when(order.value > 0):
                    high.value = middle.value

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("lookup", tensors, [((count,), tensors[5].dtype)], write)

    operands = (flat(ctx, text.spans), text.data, names.spans, names.data, places, labels)
    return ctx.reshape(ctx.kernel("lookup", build, *operands, dtype=labels.dtype), x.shape)


def codes(ctx: Context, x: Value, words: Sequence[str]) -> Value:
    """The position of each string in `words`, which all differ; the number of words for a string that is none."""
    return lookup(ctx, x, words, ctx.constant(np.arange(len(words) + 1)))


def ranks(ctx: Context, x: Value) -> Value:
    """For each string, the number of strings of `x` that sort before it by their bytes. Equal strings have the same."""
    text, count = text_of(ctx, x), ctx.product(x.shape)

    def write(code: Code, spans: Array, data: Array, result: Array, order: Array, scratch: Array) -> None:
        def before(code: Code, a: ir.Expr, b: ir.Expr) -> ir.Expr:
            return _compared(code, spans[a], data, spans[b], data).value < 0

        merge_sort(code, order, scratch, count, before)
        with code.loop("i", count) as i:
            last = order[tirx.max(i - 1, 0)]
            new = code.cell("new", before(code, last, order[i]))
            result[order[i]] = tirx.Select(tirx.any(i == 0, new.value), i, result[last])

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("ranks", tensors, [((count,), "int64")] * 3, write)

    found, *_ = ctx.kernel("ranks", build, flat(ctx, text.spans), text.data, dtype=("int64",) * 3)
    return ctx.reshape(found, x.shape)


def _broadcast(ctx: Context, a: Value, b: Value) -> tuple[Value, Value, Value, Value]:
    """The spans of two tensors of strings, broadcast to a common shape, and the bytes of each tensor."""
    one, other = text_of(ctx, a), text_of(ctx, b)
    left = elementwise(ctx, "first", lambda x, _: x, one.spans, other.spans)
    right = elementwise(ctx, "second", lambda _, y: y, one.spans, other.spans)
    return left, right, one.data, other.data


def _split(
    code: Code, span: ir.Expr, data: Array, delimiter: bytes, limit: int | None, put: Callable[..., None]
) -> Cell:
    """Write the statements that `put(number, span)` the pieces of a string. Returns a cell with their number."""
    whole = code.cell("whole", span)
    end = code.cell("end", start(whole.value) + length(whole.value))
    at, begin, found = (
        code.cell("at", start(whole.value)),
        code.cell("begin", start(whole.value)),
        code.cell("found", 0),
    )

    def piece(last: ir.Expr) -> None:
        put(found.value, span_of(begin.value, last - begin.value))
        found.value += 1

    more = tirx.const(1, "bool") if limit is None else found.value < limit
    if delimiter:
        size = len(delimiter)
        with code.repeat(tirx.all(at.value + size <= end.value, more)):
            bytes_ = [tirx.EQ(data[at.value + k], tirx.const(b, "uint8")) for k, b in enumerate(delimiter)]
            agrees = code.cell("agrees", tirx.all(*bytes_))
            with code.when(agrees.value):
                piece(at.value)
                begin.value = at.value + size
            at.value += tirx.Select(agrees.value, tirx.const(size, "int64"), tirx.const(1, "int64"))
        piece(end.value)
        return found
    going = code.cell("going", tirx.const(1, "bool"))
    with code.repeat(going.value):
        _skip(code, data, at, end, whitespace=True)
        begin.value = at.value
        with code.when(at.value < end.value):
            with code.when(more):
                _skip(code, data, at, end, whitespace=False)
                piece(at.value)
            if limit is not None:
                with code.when(tirx.all(tirx.Not(more), begin.value < end.value, begin.value >= at.value)):
                    at.value = end.value
                    piece(end.value)
        going.value = at.value < end.value
    return found


def _skip(code: Code, data: Array, at: Cell, end: Cell, *, whitespace: bool) -> None:
    """Move on to the next character that is not whitespace if `whitespace`, else to the next that is."""
    on = code.cell("on", at.value < end.value)
    with code.repeat(on.value):
        character, width = code_point(code, data, at.value, end.value)
        space = tirx.any(*(_between(character.value, *bounds) for bounds in _runs(_WHITESPACE)))
        on.value = space if whitespace else tirx.Not(space)
        with code.when(on.value):
            at.value += width.value
            on.value = at.value < end.value


def _between(value: ir.Expr, low: int, high: int) -> ir.Expr:
    return tirx.all(value >= low, value <= high)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges, with both ends included."""
    runs: list[tuple[int, int]] = []
    for n in numbers:
        runs = [*runs[:-1], (runs[-1][0], n)] if runs and runs[-1][1] == n - 1 else [*runs, (n, n)]
    return runs


def _compared(code: Code, a: ir.Expr, a_data: Array, b: ir.Expr, b_data: Array) -> Cell:
    """A cell that is below, at or above 0 if a string sorts before, equals or sorts after another, by their bytes."""
    left, right = code.cell("left", a), code.cell("right", b)
    order, at = code.cell("order", 0), code.cell("at", 0)
    shorter = tirx.min(length(left.value), length(right.value))
    with code.repeat(tirx.all(tirx.EQ(order.value, tirx.const(0, "int64")), at.value < shorter)):
        one = tirx.Cast("int64", a_data[start(left.value) + at.value])
        order.value = one - tirx.Cast("int64", b_data[start(right.value) + at.value])
        at.value += 1
    with code.when(tirx.EQ(order.value, tirx.const(0, "int64"))):
        order.value = length(left.value) - length(right.value)
    return order
