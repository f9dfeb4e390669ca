"""Imports the ONNX operators Scaler, Normalizer, Imputer, OneHotEncoder, FeatureVectorizer
(`compiler.operators.classical.tables`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical import tables
from deploykit.compiler.operators.strings.spans import STRING
from deploykit.frontends.onnx.attributes import ML
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Scaler", domain=ML)
def scaler(ctx: Context, node: Node, x: Value) -> Value:
    return tables.scaler(ctx, x, node.floats("offset"), node.floats("scale"))


@operator("Normalizer", domain=ML)
def normalizer(ctx: Context, node: Node, x: Value) -> Value:
    return tables.normalizer(ctx, x, cast("tables.Norm", node.choice("norm", ("MAX", "L1", "L2"), "MAX")))


@operator("Imputer", domain=ML)
def imputer(ctx: Context, node: Node, x: Value) -> Value:
    imputed: Sequence[float]
    if x.dtype.startswith("float"):
        imputed, replaced = node.floats("imputed_value_floats", []), node.float("replaced_value_float", 0.0)
    else:
        imputed, replaced = node.ints("imputed_value_int64s", []), node.int("replaced_value_int64", 0)
    if not imputed:
        raise Unsupported(f"no imputed values for an input of {x.dtype}")
    return tables.imputer(ctx, x, imputed, replaced)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(ctx: Context, node: Node, x: Value) -> Value:
    categories = node.strings("cats_strings", []) if x.dtype == STRING else node.ints("cats_int64s", [])
    if not categories:
        raise Unsupported(f"no categories for an input of {x.dtype}: give cats_strings or cats_int64s")
    return tables.one_hot_encoder(ctx, x, categories, zeros=bool(node.int("zeros", 1)))


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(ctx: Context, node: Node, *inputs: Value) -> Value:
    return tables.feature_vectorizer(ctx, inputs)
