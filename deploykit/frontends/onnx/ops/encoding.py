"""Imports the ONNX operators Binarizer, LabelEncoder, CategoryMapper, TfIdfVectorizer
(`compiler.operators.classical.encoding`).

LabelEncoder has a separate attribute per dtype for its keys, values and default. Its first version, and CategoryMapper,
map strings to integers if the input has strings, else integers to strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value, constant
from deploykit.compiler.operators.classical import encoding
from deploykit.compiler.operators.strings.spans import STRING
from deploykit.frontends.onnx.attributes import ML
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Binarizer", domain=ML)
def binarizer(ctx: Context, node: Node, x: Value) -> Value:
    return encoding.binarizer(ctx, x, node.float("threshold", 0.0))


@operator("LabelEncoder", domain=ML)
def positions(ctx: Context, node: Node, x: Value) -> Value:
    names = node.strings("classes_strings")
    return _mapped(ctx, node, x, np.arange(len(names)), np.array(names, object))


@operator("CategoryMapper", domain=ML)
def category_mapper(ctx: Context, node: Node, x: Value) -> Value:
    numbers, names = node.ints("cats_int64s"), node.strings("cats_strings")
    return _mapped(ctx, node, x, np.array(numbers, np.int64), np.array(names, object))


def _mapped(ctx: Context, node: Node, x: Value, numbers: np.ndarray, names: np.ndarray) -> Value:
    """`numbers` from `names`, or `names` from `numbers`."""
    keys, values = (names, numbers) if x.dtype == STRING else (numbers, names)
    return encoding.label_encoder(ctx, x, keys, values, _default(node, values.dtype))


@operator("LabelEncoder", domain=ML, since=2)
def label_encoder(ctx: Context, node: Node, x: Value) -> Value:
    keys, values = _mapping(node, "keys"), _mapping(node, "values")
    return encoding.label_encoder(ctx, x, keys, values, _default(node, values.dtype))


@operator("TfIdfVectorizer", since=9)
def tf_idf(ctx: Context, node: Node, x: Value) -> Value:
    pool: Sequence[int] | Sequence[str]
    pool = node.strings("pool_strings", []) if x.dtype == STRING else node.ints("pool_int64s", [])
    if not pool:
        raise Unsupported(f"no pool for an input of {x.dtype}: give pool_strings or pool_int64s")
    grams = encoding.Grams(
        items=pool,
        firsts=node.ints("ngram_counts"),
        columns=node.ints("ngram_indexes"),
        weights=node.floats("weights", []),
        shortest=node.int("min_gram_length"),
        longest=node.int("max_gram_length"),
        skips=node.int("max_skip_count"),
    )
    return encoding.tf_idf(ctx, x, grams, cast("encoding.Weighting", node.choice("mode", ("TF", "IDF", "TFIDF"))))


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
