"""StringNormalizer: converts the case of strings and removes stop words.

The case conversion is Unicode's, for each character by itself (`ß` becomes `SS`, `Σ` always `σ`). Its tables are part
of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.strings.spans import (
    LAST_CHARACTER,
    code_point,
    flat,
    length,
    same,
    start,
    string_of,
    text_of,
    written,
)

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Case: TypeAlias = Literal["LOWER", "UPPER"]


def string_normalizer(
    ctx: Context, x: Value, case: Case | None = None, stopwords: Sequence[str] = (), *, case_sensitive: bool = False
) -> Value:
    """The strings of `x`, `[C]` or `[1, C]`, in the given case, without stop words. Strings are compared with stop
    words as they are if `case_sensitive`, else in the given case or in lower case. An empty result becomes one empty
    string."""
    if x.rank not in (1, 2) or (x.rank == 2 and x.shape[0] != 1):
        raise Unsupported(f"{x}; it must be [C] or [1, C]")
    upper = case == "UPPER"
    changed = x if case is None else _in_case(ctx, x, upper=upper)
    if not stopwords:
        return _without(ctx, changed, changed, [])
    if case_sensitive:
        return _without(ctx, changed, x, stopwords)
    compared = changed if case is not None else _in_case(ctx, x, upper=False)
    return _without(ctx, changed, compared, [_cased(word, upper=upper) for word in stopwords])


def _without(ctx: Context, x: Value, compared: Value, words: Sequence[str]) -> Value:
    """The strings of `x` whose `compared` form is not among `words`; one empty string if none is left."""
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

    spans = [flat(ctx, t.spans) for t in texts]
    operands = (*spans, texts[1].data, stops.spans, stops.data)
    kept, total = ctx.kernel("kept", build, *operands, dtype=("int64", "int64"))
    (left,) = ctx.ints(total, minimum=0, maximum=count, hint="kept")
    shown: IntExpr = ctx.simplify(tirx.max(left, 1)) if isinstance(left, ir.Expr) else max(left, 1)
    chosen = ctx.kernel("left", lambda t: compute((shown,), t, name="left"), kept, dtype="int64")
    return string_of(ctx.reshape(chosen, (1,) * (x.rank - 1) + (shown,)), texts[0].data)


def _in_case(ctx: Context, x: Value, *, upper: bool) -> Value:
    """The strings in upper or lower case."""
    if x.array is not None:
        return ctx.constant(np.array([_cased(s, upper=upper) for s in x.array.flat], object).reshape(x.shape))
    text, tables = text_of(ctx, x), _case_tables(upper)
    operands = (flat(ctx, text.spans), text.data, *map(ctx.constant, tables))
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


def _cased(text: str, *, upper: bool) -> str:
    """The text in another case, each character by itself."""
    return "".join(c.upper() if upper else c.lower() for c in text)


@cache
def _case_tables(upper: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The characters that change, the number of bytes of what they become, and these bytes."""
    pairs = [(c, _cased(chr(c), upper=upper)) for c in range(LAST_CHARACTER + 1) if not 0xD800 <= c < 0xE000]
    changed = [(c, text.encode()) for c, text in pairs if text != chr(c)]
    data = np.zeros((len(changed), max(len(text) for _, text in changed)), np.uint8)
    for row, (_, text) in zip(data, changed, strict=True):
        row[: len(text)] = list(text)
    return np.array([c for c, _ in changed], np.int32), np.array([len(t) for _, t in changed], np.uint8), data
