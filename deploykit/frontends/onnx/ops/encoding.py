"""ONNX: Binarizer, LabelEncoder, TfIdfVectorizer (`compiler.operators.encoding`)."""

from __future__ import annotations

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.encoding import Group, encoded, groups_of
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.integers import minimum
from deploykit.compiler.operators.strings import string_of, text_of
from deploykit.compiler.operators.value import Value, constant
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

MOST_SKIPS = 2**31
"""More items than any row has."""


@operator("Binarizer", domain="ai.onnx.ml")
def binarizer(ctx: Context, node: Node, x: Value) -> Value:
    threshold = node.float("threshold", 0.0)

    def above(v: ir.Expr) -> ir.Expr:
        dtype = str(v.ty.dtype)
        limit = v if dtype.startswith("float") else tirx.Cast("float64", v)
        over = limit > tirx.const(threshold, str(limit.ty.dtype))
        return tirx.Select(over, tirx.const(1, dtype), tirx.const(0, dtype))

    return elementwise(ctx, "binarizer", above, x)


@operator("LabelEncoder", domain="ai.onnx.ml", since=2)
def label_encoder(ctx: Context, node: Node, x: Value) -> Value:
    """Of equal keys the last one counts, and NaN is a key like any other."""
    keys, values = _mapping(node, "keys"), _mapping(node, "values")
    if len(keys) != len(values):
        raise Unsupported(f"{len(keys)} keys and {len(values)} values")
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    default = _default(node, values.dtype)
    labels = ctx.constant(np.array([*table.values(), default], values.dtype))
    if values.dtype == object:
        text = text_of(ctx, labels)
        return string_of(encoded(ctx, x, keys, table, text.spans), text.data)
    return encoded(ctx, x, keys, table, labels)


def _mapping(node: Node, side: str) -> np.ndarray:
    if node.has(f"{side}_strings"):
        return np.array(node.strings(f"{side}_strings"), object)
    if node.has(f"{side}_int64s"):
        return np.array(node.ints(f"{side}_int64s"), np.int64)
    if node.has(f"{side}_floats"):
        return np.array(node.floats(f"{side}_floats"), np.float32)
    if node.has(f"{side}_tensor"):
        array = constant(node.tensor(f"{side}_tensor")).array
        assert array is not None
        return array.reshape(-1)
    raise Unsupported(f"no {side}: give {side}_strings, {side}_int64s, {side}_floats or {side}_tensor")


def _default(node: Node, dtype: np.dtype) -> float | int | str:
    if node.has("default_tensor"):
        number = constant(node.tensor("default_tensor")).array
        assert number is not None
        first: float | int | str = number.reshape(-1).tolist()[0]
        return first
    if dtype.kind == "O":
        return node.string("default_string", "_Unused")
    return node.int("default_int64", -1) if dtype.kind in "iu" else node.float("default_float", -0.0)


@operator("TfIdfVectorizer", since=9)
def tf_idf(ctx: Context, node: Node, x: Value) -> Value:
    """Counts each n-gram of the pool at each position and stride; a unigram at stride 1 only."""
    if not node.has("pool_int64s"):
        raise Unsupported("a pool of strings")
    pool, columns = node.ints("pool_int64s"), node.ints("ngram_indexes")
    groups = groups_of(len(pool), node.ints("ngram_counts"))
    shortest, longest = node.int("min_gram_length"), node.int("max_gram_length")
    if not 1 <= shortest <= longest <= len(groups):
        raise Unsupported(f"n-grams of {shortest} to {longest} items and a pool of those of 1 to {len(groups)}")
    if sum(group.count for group in groups) != len(columns) or min(columns, default=-1) < 0:
        raise Unsupported("ngram_indexes must have a number that is not negative for each n-gram of the pool")
    width, length, mode = max(columns) + 1, x.shape[-1], node.choice("mode", ("TF", "IDF", "TFIDF"))
    rows: tuple[IntExpr, ...] = x.shape[:-1]
    weights = node.floats("weights", [])
    if weights and len(weights) != width:
        raise Unsupported(f"{len(weights)} weights for {width} columns")
    skips = node.int("max_skip_count")
    if skips < 0:
        raise Unsupported(f"max_skip_count is {skips}; the least is 0")
    tables = [np.array(pool or [0], np.int64), np.array(columns, np.int64), np.array(weights or [0], np.float32)]

    def count_group(code: Code, row: list[ir.Expr], group: Group, arrays: tuple[Array, ...]) -> None:
        data, items, places, result = arrays
        strides = 1 if group.size == 1 else minimum(min(skips, MOST_SKIPS), length - 1) + 1
        with loops(code, (group.count, strides)) as (gram, skipped):
            stride, first = skipped + 1, group.first_item + gram * group.size
            column = code.cell("column", places[group.number + gram])
            with code.loop("i", tirx.max(length - (group.size - 1) * stride, 0)) as i:
                pairs = [(data(*row, i + k * stride), items[first + k]) for k in range(group.size)]
                with code.when(tirx.all(*(tirx.EQ(tirx.Cast("int64", a), b) for a, b in pairs))):
                    result[(*row, column.value)] = result(*row, column.value) + 1.0

    def write(code: Code, data: Array, items: Array, places: Array, factors: Array, result: Array) -> None:
        with loops(code, rows) as row:
            with code.loop("j", width) as j:
                result[(*row, j)] = 0.0
            for group in groups[shortest - 1 : longest]:
                count_group(code, row, group, (data, items, places, result))
            if mode != "TF":
                with code.loop("j", width) as j:
                    count = result(*row, j)
                    seen = tirx.min(count, tirx.const(1, "float32")) if mode == "IDF" else count
                    result[(*row, j)] = seen * factors[j] if weights else seen

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("ngrams", tensors, [((*rows, width), "float32")], write)

    return ctx.kernel("ngrams", build, x, *map(ctx.constant, tables), dtype="float32")
