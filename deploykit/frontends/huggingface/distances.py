"""Biases by the distance between a query and a key.

A distance falls into a bucket: small ones into one of their own, larger ones by their logarithm, up to a distance from
which on all are in the last. `places` is an array with the bucket of each distance from -n to n, where -n and n stand
for all beyond. (Source: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", 2019, section 2.1.)
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import clamp, expr
from deploykit.compiler.operators.building.reduce_axes import lowest
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.tensors import Tensor

FARTHEST = 1 << 20
"""The largest distance that may have a bucket of its own: there is a table of them."""


def _require(count: int, least: int, farthest: int, nearest: int) -> None:
    """Raises `UnsupportedModelError` for fewer than `least` buckets, or a farthest distance out of range."""
    if count < least:
        raise UnsupportedModelError(f"{count} buckets for distances: there must be at least {least}")
    if not nearest <= farthest <= FARTHEST:
        raise UnsupportedModelError(
            f"distances of up to {farthest} in {count} buckets: it must be from {nearest} to {FARTHEST}"
        )


def buckets(count: int, farthest: int) -> np.ndarray:
    """`places` of `count` buckets: the first half for keys in front of the query and at its position, the second half
    for those behind it. Distances of at least `farthest` share a bucket.

    Raises `UnsupportedModelError` if there are too few or too many of either."""
    half, exact = count // 2, count // 4
    _require(count, 4, farthest, exact + 1)
    distance = np.arange(-farthest, farthest + 1)
    size = np.abs(distance)
    ratio = np.log(np.maximum(size, 1).astype(np.float32) / np.float32(exact)) / np.float32(math.log(farthest / exact))
    large = exact + (ratio * np.float32(half - exact)).astype(np.int64)
    found: np.ndarray = np.where(size < exact, size, np.minimum(large, half - 1)) + half * (distance > 0)
    return found


def bias(table: Tensor, places: np.ndarray, mask: Tensor) -> Tensor:
    """What is added to scores (batch, heads, length, length): the entry of `table` (buckets, heads) for the distance
    from query to key; minus infinity where the boolean mask (batch, 1, 1, length) is false."""
    assert table.value.array is not None
    entries = table.ctx.constant(table.value.array[places])
    batch, _, _, length = mask.shape
    farthest = len(places) // 2

    def build(entries: te.Tensor, valid: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, h: ir.Expr, q: ir.Expr, k: ir.Expr) -> ir.Expr:
            place = expr(clamp(k - q, -farthest, farthest)) + farthest
            return tirx.Select(valid(b, 0, 0, k), entries(place, h), lowest("float32"))

        return compute((batch, table.shape[1], length, length), element, name="bias")

    return mask.of(table.ctx.kernel("bias", build, entries, mask.value, dtype="float32"))


def log_places(count: int, longest: int) -> np.ndarray:
    """`places` of DeBERTa for `query - key`, from 0 to 2 * span - 1: distances of up to half of the `count` buckets are
    in one of their own, larger ones by their logarithm. Without buckets, all up to `longest` are.

    Raises `UnsupportedModelError` if there are too few or too many distances."""
    span = count if count > 0 else longest
    _require(span, 1 if count <= 0 else 2, longest, 1)
    distance = np.arange(-2 * longest, 2 * longest + 1)
    if count <= 0:
        return np.clip(distance + span, 0, 2 * span - 1)
    middle = count // 2
    size = np.maximum(np.abs(distance), middle).astype(np.float32) / np.float32(middle)
    ratio = np.log(size) / np.log(np.float32((longest - 1) / middle)) * np.float32(middle - 1)
    large = (np.ceil(ratio) + middle) * np.sign(distance)
    found = np.where(np.abs(distance) <= middle, distance, large).astype(np.int64)
    return np.clip(found + span, 0, 2 * span - 1)


Side: TypeAlias = tuple[Tensor, Tensor | None]
"""States of tokens (batch, length, width), and the embeddings of distances (places, width) that they meet."""


def disentangled(queries: Side, keys: Side, heads: int, places: np.ndarray, mask: Tensor, scale: float) -> Tensor:
    """What is added to scores (batch, heads, length, length): products of queries, and of keys, with the embedding at
    the place of `query - key`, scaled; minus infinity where the boolean mask (batch, 1, 1, length) is false."""
    met = [(_met(x, table, heads), of_query) for (x, table), of_query in ((queries, True), (keys, False)) if table]
    batch, _, _, length = mask.shape
    farthest, ctx = len(places) // 2, mask.ctx

    def build(valid: te.Tensor, places: te.Tensor, *products: te.Tensor) -> te.Tensor:
        def element(b: ir.Expr, h: ir.Expr, q: ir.Expr, k: ir.Expr) -> ir.Expr:
            place = places(expr(clamp(q - k, -farthest, farthest)) + farthest)
            found = tirx.const(0, "float32")
            for product, (_, of_query) in zip(products, met, strict=True):
                found = found + product(b, h, q if of_query else k, place)
            return tirx.Select(valid(b, 0, 0, k), found * tirx.const(scale, "float32"), lowest("float32"))

        return compute((batch, heads, length, length), element, name="disentangled")

    operands = (mask.value, ctx.constant(places, "int64"), *(product.value for product, _ in met))
    return mask.of(ctx.kernel("disentangled", build, *operands, dtype="float32"))


def _met(x: Tensor, table: Tensor, heads: int) -> Tensor:
    """The product of each head of `x` with each row of `table`: (batch, heads, length, rows)."""
    batch, length, width = x.shape
    rows, size = table.shape[0], int(width) // heads
    split = x.reshape(batch, length, heads, size).transpose(0, 2, 1, 3)
    return split @ table.reshape(rows, heads, size).transpose(1, 2, 0).reshape(1, heads, size, rows)
