"""Preparing the columns of a table (ai.onnx.ml): Scaler, Normalizer, Imputer, OneHotEncoder, FeatureVectorizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.indices import checked
from deploykit.compiler.operators.building.integers import equal
from deploykit.compiler.operators.building.reduce_axes import MAXIMUM, SUM, reduce_axes
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical.encoding import label_encoder
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.strings.spans import STRING

Norm: TypeAlias = Literal["MAX", "L1", "L2"]


def scaler(ctx: Context, x: Value, offset: Sequence[float], scale: Sequence[float]) -> Value:
    """`(x - offset) * scale` in float32. `offset` and `scale` have one number per column, or one for all."""
    columns = (_by_column(ctx, x, numbers, "float32") for numbers in (offset, scale))
    return elementwise(ctx, "scaler", lambda v, o, s: (v - o) * s, ctx.cast(x, "float32"), *columns)


def normalizer(ctx: Context, x: Value, norm: Norm) -> Value:
    """Each row in float32, divided by its largest element, by the sum of its magnitudes, or by the root of the sum of
    its squares. A row whose divisor is 0 stays as it is."""
    x = ctx.cast(x, "float32")
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


def imputer(ctx: Context, x: Value, imputed: Sequence[float], replaced: float) -> Value:
    """`x`, with elements that equal `replaced` (or are NaN, if `replaced` is) replaced by `imputed`: one number per
    column, or one for all."""
    columns = _by_column(ctx, x, imputed, x.dtype)

    def choose(v: ir.Expr, other: ir.Expr) -> ir.Expr:
        missing = tirx.isnan(v) if math.isnan(replaced) else tirx.EQ(v, tirx.const(replaced, str(v.ty.dtype)))
        return tirx.Select(missing, other, v)

    return elementwise(ctx, "imputer", choose, x, columns)


def one_hot_encoder(ctx: Context, x: Value, categories: Sequence[int] | Sequence[str], *, zeros: bool) -> Value:
    """One-hot encoding of `x`, `[...]`, as `[..., categories]` in float32: 1 in the column of the element's category.
    An element of no category gives zeros, or is refused when the model runs unless `zeros`. Numbers are cut off to
    integers."""
    count = len(categories)
    keys = np.array(categories, object if x.dtype == STRING else np.int64)
    places = label_encoder(ctx, x, keys, np.arange(count), count)
    if not zeros:
        places = checked(ctx, places, [(0, count - 1)], position=0, what="category numbers of")

    def build(columns: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            hot = tirx.EQ(columns(*index[:-1]), tirx.Cast(columns.dtype, index[-1]))
            return tirx.Select(hot, tirx.const(1, "float32"), tirx.const(0, "float32"))

        return compute((*x.shape, count), element, name="hot")

    return ctx.kernel("one_hot_encoder", build, places, dtype="float32")


def feature_vectorizer(ctx: Context, inputs: Sequence[Value]) -> Value:
    """The columns of all inputs next to each other, in float32. A vector counts as one row."""
    parts = [x if x.rank == 2 else ctx.reshape(x, (1, x.shape[0])) for x in inputs if x.rank in {1, 2}]
    if len(parts) != len(inputs):
        raise Unsupported("an input that is neither a vector nor a matrix")
    return concat(ctx, [ctx.cast(x, "float32") for x in parts], 1)


def _by_column(ctx: Context, x: Value, numbers: Sequence[float], dtype: str) -> Value:
    if len(numbers) > 1:
        ctx.require(equal(x.shape[-1], len(numbers)), "{} columns and {} numbers for them", x.shape[-1], len(numbers))
    return ctx.constant(np.array(numbers), dtype)
