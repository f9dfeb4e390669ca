"""ONNX: Equal, StringConcat, RegexFullMatch, StringSplit, StringNormalizer (`compiler.operators.string_operators`)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.regular_expressions import compiled
from deploykit.compiler.operators.string_operators import (
    LAST_CHARACTER,
    broadcast_of,
    cased_of,
    flat_of,
    in_case,
    split_of,
    without,
)
from deploykit.compiler.operators.strings import (
    OF_STRINGS,
    copied,
    length,
    same,
    start,
    string_of,
    text_of,
    written,
)
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Equal", domain=OF_STRINGS)
def equal_strings(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """Whether each string of `a` is that of `b`, broadcast."""
    texts = text_of(ctx, a), text_of(ctx, b)
    left, right = broadcast_of(ctx, texts[0].spans, texts[1].spans)
    count = ctx.product(left.shape)

    def write(code: Code, *arrays: Array) -> None:
        mine, theirs, one, other, result = arrays
        with code.loop("i", count) as i:
            result[i] = same(code, mine[i], one, theirs[i], other).value

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("equal_strings", tensors, [((count,), "bool")], write)

    operands = (flat_of(ctx, left), flat_of(ctx, right), texts[0].data, texts[1].data)
    return ctx.reshape(ctx.kernel("equal_strings", build, *operands, dtype="bool"), left.shape)


@operator("StringConcat")
def string_concat(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    texts = text_of(ctx, a), text_of(ctx, b)
    left, right = broadcast_of(ctx, texts[0].spans, texts[1].spans)

    def measure(code: Code, i: ir.Expr, given: Sequence[Array]) -> ir.Expr:
        return length(given[0][i]) + length(given[1][i])

    def write(code: Code, i: ir.Expr, at: ir.Expr, target: Array, given: Sequence[Array]) -> None:
        mine, theirs, one, other = given
        copied(code, mine[i], one, target, at)
        copied(code, theirs[i], other, target, at + length(mine[i]))

    operands = (flat_of(ctx, left), flat_of(ctx, right), texts[0].data, texts[1].data)
    return written(ctx, "concatenated", left.shape, measure, write, *operands)


@operator("RegexFullMatch")
def regex_full_match(ctx: Context, node: Node, x: Value) -> Value:
    text, automaton = text_of(ctx, x), compiled(node.string("pattern"))
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

    operands = (flat_of(ctx, text.spans), text.data, *map(ctx.constant, tables))
    return ctx.reshape(ctx.kernel("full_match", build, *operands, dtype="bool"), x.shape)


@operator("StringSplit")
def string_split(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    """Two kernels of one scan: one counts the pieces of each string, the other puts down where they are."""
    text, count = text_of(ctx, x), ctx.product(x.shape)
    delimiter = node.string("delimiter", "").encode()
    limit = node.int("maxsplit", LAST_CHARACTER) if node.has("maxsplit") else None
    operands = (flat_of(ctx, text.spans), text.data)

    def count_pieces(code: Code, spans: Array, data: Array, counts: Array, most: Array) -> None:
        most[0] = tirx.const(0, "int64")
        with code.loop("i", count) as i:
            found = split_of(code, spans[i], data, delimiter, limit, lambda *_: None)
            counts[i] = found.value
            most[0] = tirx.max(most[0], found.value)

    def build_counts(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("pieces", tensors, [((count,), "int64"), ((1,), "int64")], count_pieces)

    counts, most = ctx.kernel("pieces", build_counts, *operands, dtype=("int64", "int64"))
    limits = (0, None) if limit is None else (0, limit + 1)
    (width,) = ctx.ints(most, minimum=limits[0], maximum=limits[1], hint="pieces")

    def place(code: Code, spans: Array, data: Array, result: Array) -> None:
        with code.loop("i", count) as i:
            with code.loop("j", width) as j:
                result[i, j] = tirx.const(0, "int64")
            split_of(code, spans[i], data, delimiter, limit, lambda j, span: result.__setitem__((i, j), span))

    def build_pieces(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("split", tensors, [((count, width), "int64")], place)

    pieces = ctx.kernel("split", build_pieces, *operands, dtype="int64")
    return string_of(ctx.reshape(pieces, (*x.shape, width)), text.data), ctx.reshape(counts, x.shape)


@operator("StringNormalizer")
def string_normalizer(ctx: Context, node: Node, x: Value) -> Value:
    if x.rank not in (1, 2) or (x.rank == 2 and x.shape[0] != 1):
        raise Unsupported(f"{x}; it must be [C] or [1, C]")
    action = node.choice("case_change_action", ("LOWER", "UPPER", "NONE"), "NONE")
    stopwords = node.strings("stopwords", [])
    changed = x if action == "NONE" else in_case(ctx, x, upper=action == "UPPER")
    if stopwords:
        upper = action == "UPPER"
        sensitive = bool(node.int("is_case_sensitive", 0))
        compared = x if sensitive else (changed if action != "NONE" else in_case(ctx, x, upper=False))
        words = stopwords if sensitive else [cased_of(word, upper=upper) for word in stopwords]
        changed = without(ctx, changed, compared, words)
    else:
        changed = without(ctx, changed, changed, [])
    return changed
