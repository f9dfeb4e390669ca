"""Imports the ONNX operators on strings: Equal, StringConcat, RegexFullMatch, StringSplit, Unique
(`compiler.operators.text.operators`), StringNormalizer (`compiler.operators.text.normalizer`), and Tokenizer and
MurmurHash3 of com.microsoft (`compiler.operators.text.tokenizer`, `compiler.operators.text.hashing`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.ranking import unique
from deploykit.compiler.operators.strings import normalizer, operators
from deploykit.compiler.operators.strings.hashing import murmur_hash
from deploykit.compiler.operators.strings.spans import OF_STRINGS, string_of, text_of
from deploykit.compiler.operators.strings.tokenizer import tokenizer
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

MOST_CHARACTERS = 1 << 31


@operator("Equal", domain=OF_STRINGS)
def equal_strings(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return operators.equal_strings(ctx, a, b)


@operator("Unique", domain=OF_STRINGS)
def unique_strings(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    text, axis = text_of(ctx, x), node.axis(x.rank) if node.has("axis") else None
    in_order, keys = node.int("sorted", 1) != 0, operators.ranks(ctx, x)
    spans, *others = unique(ctx, text.spans, axis, in_order=in_order, keys=keys)
    return string_of(spans, text.data), *others


@operator("StringConcat")
def string_concat(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return operators.string_concat(ctx, a, b)


@operator("RegexFullMatch")
def regex_full_match(ctx: Context, node: Node, x: Value) -> Value:
    return operators.regex_full_match(ctx, x, node.string("pattern"))


@operator("StringSplit")
def string_split(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    limit = node.int("maxsplit") if node.has("maxsplit") else None
    return operators.string_split(ctx, x, node.string("delimiter", ""), limit)


@operator("StringNormalizer")
def string_normalizer(ctx: Context, node: Node, x: Value) -> Value:
    cases: dict[str, normalizer.Case | None] = {"LOWER": "LOWER", "UPPER": "UPPER", "NONE": None}
    case, stopwords = cases[node.choice("case_change_action", cases, "NONE")], node.strings("stopwords", [])
    sensitive = bool(node.int("is_case_sensitive", 0))
    return normalizer.string_normalizer(ctx, x, case, stopwords, case_sensitive=sensitive)


@operator("Tokenizer", domain=MICROSOFT)
def words(ctx: Context, node: Node, x: Value) -> Value:
    separators, expression = node.strings("separators", []), node.string("tokenexp", "")
    shortest = node.int("mincharnum")
    by_character = separators == [""] or (not separators and expression == ".")
    if not separators and not expression:
        raise Unsupported("neither separators nor tokenexp")
    if not 1 <= shortest <= (1 if by_character else MOST_CHARACTERS):
        raise Unsupported(f"mincharnum is {shortest}")
    return tokenizer(
        ctx,
        x,
        words="" if separators else expression,
        separators=separators,
        shortest=shortest,
        filler=node.string("pad_value"),
        mark=node.int("mark") != 0,
    )


@operator("MurmurHash3", domain=MICROSOFT)
def murmur_hash_operator(ctx: Context, node: Node, x: Value) -> Value:
    seed = node.int("seed", 0)
    if not 0 <= seed < 1 << 32:
        raise Unsupported(f"seed is {seed}; it must have 32 bits")
    return murmur_hash(ctx, x, seed, positive=bool(node.int("positive", 1)))
