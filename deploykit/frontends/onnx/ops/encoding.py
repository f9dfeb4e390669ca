"""Imports the ONNX operators Binarizer, LabelEncoder, TfIdfVectorizer (`compiler.operators.classical.encoding`).

LabelEncoder has a separate attribute per dtype for its keys, values and default. A TfIdfVectorizer with a pool of
strings is refused.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value, constant
from deploykit.compiler.operators.classical import encoding
from deploykit.frontends.onnx.attributes import ML
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Binarizer", domain=ML)
def binarizer(ctx: Context, node: Node, x: Value) -> Value:
    return encoding.binarizer(ctx, x, node.float("threshold", 0.0))


@operator("LabelEncoder", domain=ML, since=2)
def label_encoder(ctx: Context, node: Node, x: Value) -> Value:
    keys, values = _mapping(node, "keys"), _mapping(node, "values")
    return encoding.label_encoder(ctx, x, keys, values, _default(node, values.dtype))


@operator("TfIdfVectorizer", since=9)
def tf_idf(ctx: Context, node: Node, x: Value) -> Value:
    if not node.has("pool_int64s"):
        raise Unsupported("a pool of strings")
    grams = encoding.Grams(
        items=node.ints("pool_int64s"),
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
