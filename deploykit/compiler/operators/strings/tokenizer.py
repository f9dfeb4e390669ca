"""Tokenizer of com.microsoft: the words of strings, found by regular expressions (`regular_expressions`).

    by an expression     words are its longest matches from the left
    by separators        words lie between the longest matches of the first separator; each of them is then split by the
                         next separator
    into characters      each character is a word

Words with fewer characters than a minimum are left out; a match that is too short is looked for again behind its first
character. Bytes that are not UTF-8 are characters by themselves.
(Source: the operator of ONNX Runtime, which refuses such bytes.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Cell, Code
from deploykit.compiler.operators.building.integers import equal, expr, select
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.strings.operators import Put, Scan, pieces
from deploykit.compiler.operators.strings.regular_expressions import Automaton, compiled
from deploykit.compiler.operators.strings.spans import code_point, length, span_of, start, string_of, together

TABLES = 6
"""The number of arrays of an automaton."""
MARKS = ("\x02", "\x03")
"""The words before the first and behind the last one, if they are marked."""
MOST_SEPARATORS = 8


def tokenizer(
    ctx: Context, x: Value, *, words: str, separators: Sequence[str], shortest: int, filler: str, mark: bool
) -> Value:
    """The words `[..., most]` of the strings of `x`, `[n]` or `[n, m]`, each followed by fillers. They are matches of
    `words` or, if that is empty, lie between `separators`. If all strings are without words, there are 0 fillers."""
    if x.rank not in (1, 2):
        raise Unsupported(f"{x}; it must be [n] or [n, m]")
    if words == "." or list(separators) == [""]:
        automata: list[Automaton] = []
        scan: Scan = _characters
    else:
        automata = [compiled(pattern) for pattern in ([words] if words else separators)]
        scan = _by_matches(automata[0], shortest) if words else _between(automata, shortest)
    for pattern, automaton in zip(separators, automata if not words else [], strict=False):
        if automaton.ends[automaton.starts].any():
            raise Unsupported(f"the separator {pattern!r}, which matches the empty string")
    if len(automata) > MOST_SEPARATORS:
        raise Unsupported(f"{len(automata)} separators; at most {MOST_SEPARATORS} are possible")
    (texts, special), data = together(ctx, [x, ctx.constant(np.array([*MARKS, filler], object))])
    tables = [ctx.constant(table) for automaton in automata for table in _tables(automaton)]
    spans, counts = pieces(ctx, texts, scan, data, *tables)
    return string_of(_filled(ctx, spans, counts, special, mark=mark), data)


def _filled(ctx: Context, spans: Value, counts: Value, special: Value, *, mark: bool) -> Value:
    """`spans` `[..., width]`, between marks, and with the filler behind the `counts` words of each string. `special`
    are the spans of marks and filler."""
    most = spans.shape[-1]
    width = ctx.simplify(select(equal(most, 0), 0, most + 2)) if mark else most
    first = 1 if mark else 0

    def build(words: te.Tensor, numbers: te.Tensor, others: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            *row, j = index
            place, count = j - first, numbers(*row)
            word = words(*row, tirx.max(tirx.min(place, expr(most) - 1), 0))
            inside = tirx.all(place >= 0, place < count)
            if not mark:
                return tirx.Select(inside, word, others(2))
            behind = tirx.Select(tirx.EQ(place, count), others(1), others(2))
            return tirx.Select(place < 0, others(0), tirx.Select(inside, word, behind))

        return compute((*spans.shape[:-1], width), element, name="words")

    return ctx.kernel("words", build, spans, counts, special, dtype="int64")


def _characters(code: Code, span: ir.Expr, given: Sequence[Array], put: Put) -> Cell:
    at, end = code.cell("at", start(span)), code.cell("end", start(span) + length(span))
    found = code.cell("found", 0)
    with code.repeat(at.value < end.value):
        _, width = code_point(code, given[0], at.value, end.value)
        put(found.value, span_of(at.value, width.value))
        found.value += 1
        at.value += width.value
    return found


def _by_matches(automaton: Automaton, shortest: int) -> Scan:
    """Words that are matches."""

    def scan(code: Code, span: ir.Expr, given: Sequence[Array], put: Put) -> Cell:
        data, *tables = given
        found = code.cell("found", 0)
        first, end = code.cell("first", start(span)), code.cell("end", start(span) + length(span))

        def use(at: Cell, stop: Cell) -> ir.Expr:
            good = code.cell("good", _size(code, data, at.value, stop.value) >= shortest)
            with code.when(good.value):
                put(found.value, span_of(at.value, stop.value - at.value))
                found.value += 1
            return good.value

        _each_match(code, automaton, data, tables, first, end, use)
        return found

    return scan


def _between(automata: Sequence[Automaton], shortest: int) -> Scan:
    """Words that lie between matches of the first automaton, split at those of the others."""

    def scan(code: Code, span: ir.Expr, given: Sequence[Array], put: Put) -> Cell:
        data, *tables = given
        found = code.cell("found", 0)

        def split(number: int, begin: ir.Expr, stop: ir.Expr) -> None:
            """Write the words of a piece, by the automata from `number` on."""
            if number == len(automata):
                put(found.value, span_of(begin, stop - begin))
                found.value += 1
                return
            first, end = code.cell("first", begin), code.cell("end", stop)
            word = code.cell("word", first.value)

            def piece(last: ir.Expr) -> None:
                with code.when(_size(code, data, word.value, last) >= shortest):
                    split(number + 1, word.value, last)

            def use(at: Cell, stop: Cell) -> ir.Expr:
                piece(at.value)
                word.value = stop.value
                return tirx.const(1, "bool")

            own = tables[number * TABLES : (number + 1) * TABLES]
            _each_match(code, automata[number], data, own, first, end, use)
            piece(end.value)

        split(0, start(span), start(span) + length(span))
        return found

    return scan


def _each_match(
    code: Code,
    automaton: Automaton,
    data: Array,
    tables: Sequence[Array],
    first: Cell,
    end: Cell,
    use: Callable[[Cell, Cell], ir.Expr],
) -> None:
    """Write statements that call `use(begin, stop)` for the longest matches in a text from the left. If it returns
    false, the next match may begin behind the first character of this one. Empty matches are left out."""
    classes, table, starts, ends, alive, word = tables
    at = code.cell("at", first.value)

    def around(place: ir.Expr, is_end: ir.Expr) -> ir.Expr:
        """What the byte at `place` means for a match before or after it: an index into `AROUND`."""
        if not automaton.looks_around:
            return expr(0)
        kind = code.cell("kind", 0)
        with code.when(tirx.Not(is_end)):
            inside = word[tirx.Cast("int64", data[place])]
            kind.value = tirx.Select(inside, tirx.const(1, "int64"), tirx.const(2, "int64"))
        return kind.value

    with code.repeat(at.value < end.value):
        state = code.cell("state", tirx.Cast("int64", starts[around(at.value - 1, at.value <= first.value)]))
        stop, ahead = code.cell("stop", at.value), code.cell("ahead", at.value)
        with code.repeat(ahead.value < end.value):
            byte = tirx.Cast("int64", data[ahead.value])
            state.value = tirx.Cast("int64", table[state.value, tirx.Cast("int64", classes[byte])])
            ahead.value += 1
            with code.when(ends[state.value, around(ahead.value, ahead.value >= end.value)]):
                stop.value = ahead.value
            with code.when(tirx.Not(alive[state.value])):
                ahead.value = end.value
        taken = code.cell("taken", stop.value > at.value)
        with code.when(taken.value):
            taken.value = use(at, stop)
        with code.when(taken.value):
            at.value = stop.value
        with code.when(tirx.Not(taken.value)):
            _, width = code_point(code, data, at.value, end.value)
            at.value += width.value


def _size(code: Code, data: Array, begin: ir.Expr, stop: ir.Expr) -> ir.Expr:
    """The number of characters of a piece: of its bytes that do not continue a character."""
    size = code.cell("characters", 0)
    with code.loop("k", stop - begin) as k:
        byte = tirx.bitwise_and(tirx.Cast("int64", data[begin + k]), tirx.const(0xC0, "int64"))
        size.value += tirx.Cast("int64", tirx.NE(byte, tirx.const(0x80, "int64")))
    return size.value


def _tables(automaton: Automaton) -> tuple[np.ndarray, ...]:
    word = np.array([chr(byte).isascii() and (chr(byte).isalnum() or byte == ord("_")) for byte in range(256)])
    return (automaton.classes, automaton.table, automaton.starts, automaton.ends, automaton.alive, word)
