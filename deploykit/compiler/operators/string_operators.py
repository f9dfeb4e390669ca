"""Operators on strings: StringConcat, StringSplit, StringNormalizer, RegexFullMatch, and Equal of strings.

* Case is that of Unicode for single characters (`ß` becomes `SS`, `Σ` always `σ`), in tables that go with the weights.
* Without a delimiter, StringSplit splits at whitespace as Python does.
* StringNormalizer drops elements that are stop words; compared in the case asked for, else in lower case, unless
  `is_case_sensitive`. What is left empty is one empty string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.strings import (
    code_point,
    length,
    same,
    span_of,
    start,
    string_of,
    text_of,
    written,
)
from deploykit.compiler.operators.value import Value

_WHITESPACE = tuple(c for c in range(0x3001) if chr(c).isspace())


LAST_CHARACTER = 0x10FFFF


def flat_of(ctx: Context, value: Value) -> Value:
    return ctx.reshape(value, (ctx.product(value.shape),))


def broadcast_of(ctx: Context, a: Value, b: Value) -> tuple[Value, Value]:
    """Two tensors of spans in their common shape."""
    return (
        elementwise(ctx, "first", lambda x, _: x, a, b),
        elementwise(ctx, "second", lambda _, y: y, a, b),
    )


def split_of(
    code: Code, span: ir.Expr, data: Array, delimiter: bytes, limit: int | None, put: Callable[..., None]
) -> Cell:
    """Statements that `put(number, span)` the pieces of a string; a cell with how many there are."""
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
    """Go on to the next character that is no whitespace, or that is."""
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
    """Ascending numbers as ranges, both ends included."""
    runs: list[tuple[int, int]] = []
    for n in numbers:
        runs = [*runs[:-1], (runs[-1][0], n)] if runs and runs[-1][1] == n - 1 else [*runs, (n, n)]
    return runs


def without(ctx: Context, x: Value, compared: Value, words: Sequence[str]) -> Value:
    """The strings of `x` whose `compared` are none of `words`; one empty string where none is left."""
    texts = text_of(ctx, x), text_of(ctx, compared)
    stops = text_of(ctx, ctx.constant(np.array(words or [""], object)))
    count = ctx.product(x.shape)

    def keep(code: Code, *arrays: Array) -> None:
        mine, theirs, data, stop, stop_data, kept, total = arrays
        total[0] = tirx.const(0, "int64")
        with code.loop("i", count) as i:
            stays = code.cell("stays", tirx.const(1, "bool"))
            with code.loop("j", len(words)) as j:
                agree = same(code, theirs[i], data, stop[j], stop_data)
                stays.value = tirx.all(stays.value, tirx.Not(agree.value))
            with code.when(stays.value):
                kept[total[0]] = mine[i]
                total[0] += 1
        with code.loop("rest", tirx.max(count, 1) - total[0]) as rest:
            kept[total[0] + rest] = tirx.const(0, "int64")

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        size = tirx.max(count, 1) if isinstance(count, ir.Expr) else max(count, 1)
        return imperative("kept", tensors, [((size,), "int64"), ((1,), "int64")], keep)

    spans = [flat_of(ctx, t.spans) for t in texts]
    operands = (*spans, texts[1].data, stops.spans, stops.data)
    kept, total = ctx.kernel("kept", build, *operands, dtype=("int64", "int64"))
    (left,) = ctx.ints(total, minimum=0, maximum=count, hint="kept")
    shown: IntExpr = ctx.simplify(tirx.max(left, 1)) if isinstance(left, ir.Expr) else max(left, 1)
    chosen = ctx.kernel("left", lambda t: compute((shown,), t, name="left"), kept, dtype="int64")
    return string_of(ctx.reshape(chosen, (1,) * (x.rank - 1) + (shown,)), texts[0].data)


def in_case(ctx: Context, x: Value, *, upper: bool) -> Value:
    """Strings in upper or lower case."""
    if x.array is not None:
        return ctx.constant(np.array([cased_of(s, upper=upper) for s in x.array.flat], object).reshape(x.shape))
    text, tables = text_of(ctx, x), _case_tables(upper)
    operands = (flat_of(ctx, text.spans), text.data, *map(ctx.constant, tables))
    entries = len(tables[0])

    def each(code: Code, span: ir.Expr, given: Sequence[Array], use: Callable[..., None]) -> None:
        """Call `use(found, entry, at, width)` for each character of a string."""
        data, characters = given[1], given[2]
        whole = code.cell("whole", span)
        at = code.cell("at", start(whole.value))
        end = code.cell("end", start(whole.value) + length(whole.value))
        with code.repeat(at.value < end.value):
            character, width = code_point(code, data, at.value, end.value)
            low, high = code.cell("low", 0), code.cell("high", entries - 1)
            with code.repeat(low.value < high.value):
                middle = code.cell("middle", tirx.shift_right(low.value + high.value, tirx.const(1, "int64")))
                below = code.cell("below", tirx.Cast("int64", characters[middle.value]) < character.value)
                low.value = tirx.Select(below.value, middle.value + 1, low.value)
                high.value = tirx.Select(below.value, high.value, middle.value)
            found = code.cell("is_found", tirx.EQ(tirx.Cast("int64", characters[low.value]), character.value))
            use(found, low, at, width)
            at.value += width.value

    def measure(code: Code, i: ir.Expr, given: Sequence[Array]) -> ir.Expr:
        total = code.cell("total", 0)

        def add(found: Cell, entry: Cell, _at: Cell, width: Cell) -> None:
            size = tirx.Cast("int64", given[3][entry.value])
            total.value += tirx.Select(found.value, size, width.value)

        each(code, given[0][i], given, add)
        return total.value

    def write(code: Code, i: ir.Expr, first: ir.Expr, target: Array, given: Sequence[Array]) -> None:
        to = code.cell("to", first)

        def put(found: Cell, entry: Cell, at: Cell, width: Cell) -> None:
            with code.when(found.value):
                with code.loop("k", tirx.Cast("int64", given[3][entry.value])) as k:
                    target[to.value + k] = given[4][entry.value, k]
                to.value += tirx.Cast("int64", given[3][entry.value])
            with code.when(tirx.Not(found.value)):
                with code.loop("k", width.value) as k:
                    target[to.value + k] = given[1][at.value + k]
                to.value += width.value

        each(code, given[0][i], given, put)

    return written(ctx, "cased", x.shape, measure, write, *operands)


def cased_of(text: str, *, upper: bool) -> str:
    """The case of each character by itself."""
    return "".join(c.upper() if upper else c.lower() for c in text)


@cache
def _case_tables(upper: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Characters that change, how many bytes they become, and these bytes."""
    pairs = [(c, cased_of(chr(c), upper=upper)) for c in range(LAST_CHARACTER + 1) if not 0xD800 <= c < 0xE000]
    changed = [(c, text.encode()) for c, text in pairs if text != chr(c)]
    data = np.zeros((len(changed), max(len(text) for _, text in changed)), np.uint8)
    for row, (_, text) in zip(data, changed, strict=True):
        row[: len(text)] = list(text)
    return np.array([c for c, _ in changed], np.int32), np.array([len(t) for _, t in changed], np.uint8), data


def lookup(ctx: Context, x: Value, keys: Sequence[str], labels: Value) -> Value:
    """For each string the element of `labels` at its place in `keys`, else the last one."""
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

    operands = (flat_of(ctx, text.spans), text.data, names.spans, names.data, places, labels)
    return ctx.reshape(ctx.kernel("lookup", build, *operands, dtype=labels.dtype), x.shape)


def _compared(code: Code, a: ir.Expr, a_data: Array, b: ir.Expr, b_data: Array) -> Cell:
    """A cell below, at or above 0 as a string is before, equal to or behind another in the order of their bytes."""
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
