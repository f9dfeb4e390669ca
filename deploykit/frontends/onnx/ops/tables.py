"""What prepares the columns of a table (ai.onnx.ml): Scaler, Normalizer, Imputer, OneHotEncoder of numbers,
FeatureVectorizer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import equal
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.reduce_axes import MAXIMUM, SUM, reduce_axes
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.attributes import ML
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Scaler", domain=ML)
def scaler(ctx: Context, node: Node, x: Value) -> Value:
    """`(x - offset) * scale`, by column or with one number for all."""
    offset, scale = (_by_column(ctx, x, node.floats(name)) for name in ("offset", "scale"))
    return elementwise(ctx, "scaler", lambda v, o, s: (v - o) * s, ctx.cast(x, "float32"), offset, scale)


def _by_column(ctx: Context, x: Value, numbers: Sequence[float], dtype: str = "float32") -> Value:
    if len(numbers) > 1:
        ctx.require(equal(x.shape[-1], len(numbers)), "{} columns and {} numbers for them", x.shape[-1], len(numbers))
    return ctx.constant(np.array(numbers), dtype)


@operator("Normalizer", domain=ML)
def normalizer(ctx: Context, node: Node, x: Value) -> Value:
    """Each row over its largest element, the sum of magnitudes, or the root of the sum of squares; a row whose divisor
    is 0 stays."""
    x = ctx.cast(x, "float32")
    norm = node.choice("norm", ("MAX", "L1", "L2"), "MAX")
    if norm == "MAX":
        divisor = reduce_axes(ctx, "norm", [x], [x.rank - 1], MAXIMUM, dtype="float32")
    elif norm == "L1":
        magnitudes = elementwise(ctx, "magnitudes", tirx.abs, x)
        divisor = reduce_axes(ctx, "norm", [magnitudes], [x.rank - 1], SUM, dtype="float32")
    else:
        squares = elementwise(ctx, "squares", lambda v: v * v, x)
        divisor = reduce_axes(ctx, "norm", [squares], [x.rank - 1], SUM, dtype="float32")
        divisor = elementwise(ctx, "root", tirx.sqrt, divisor)

    def divided(v: ir.Expr, d: ir.Expr) -> ir.Expr:
        nothing = tirx.EQ(d, tirx.const(0, "float32"))
        return v / tirx.Select(nothing, tirx.const(1, "float32"), d)

    return elementwise(ctx, "normalizer", divided, x, divisor)


@operator("Imputer", domain=ML)
def imputer(ctx: Context, node: Node, x: Value) -> Value:
    kind = "float" if x.dtype.startswith("float") else "int64"
    values = node.floats("imputed_value_floats", []) if kind == "float" else node.ints("imputed_value_int64s", [])
    if not values:
        raise Unsupported(f"no imputed values for an input of {x.dtype}")
    replaced = node.float("replaced_value_float", 0.0) if kind == "float" else node.int("replaced_value_int64", 0)
    imputed = _by_column(ctx, x, values, x.dtype)

    def choose(v: ir.Expr, other: ir.Expr) -> ir.Expr:
        missing = tirx.isnan(v) if math.isnan(replaced) else tirx.EQ(v, tirx.const(replaced, str(v.ty.dtype)))
        return tirx.Select(missing, other, v)

    return elementwise(ctx, "imputer", choose, x, imputed)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(ctx: Context, node: Node, x: Value) -> Value:
    """One column a category; a value that is none has zeros."""
    categories = node.ints("cats_int64s", [])
    if not categories:
        raise Unsupported("categories that are strings")
    if not node.int("zeros", 1):
        raise Unsupported("zeros=0, which demands an error for a value that is no category")
    whole = ctx.cast(x, "int64")
    table = ctx.constant(np.array(categories, np.int64))
    shape = (*x.shape, len(categories))

    def build(values: te.Tensor, names: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            hot = tirx.EQ(values(*index[:-1]), names(index[-1]))
            return tirx.Select(hot, tirx.const(1, "float32"), tirx.const(0, "float32"))

        return compute(shape, element, name="hot")

    return ctx.kernel("one_hot_encoder", build, whole, table, dtype="float32")


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(ctx: Context, node: Node, *inputs: Value) -> Value:
    """The columns of all inputs beside each other."""
    parts = [x if x.rank == 2 else ctx.reshape(x, (1, x.shape[0])) for x in inputs if x.rank in {1, 2}]
    if len(parts) != len(inputs):
        raise Unsupported("an input that is neither a vector nor a matrix")
    return concat(ctx, [ctx.cast(x, "float32") for x in parts], 1)
