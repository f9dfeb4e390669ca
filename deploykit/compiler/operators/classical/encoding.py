"""Encoders: Binarizer and LabelEncoder of single values, TfIdfVectorizer of rows of integers or strings.

TfIdfVectorizer counts each n-gram of a pool at each position of a row. The items of an n-gram may be apart by any
stride up to the number of skipped items plus one; a unigram is counted once per position. A column has the count (TF),
the weight of its n-gram if it occurs (IDF), or the count times this weight (TFIDF), where weights are 1 by default.
(Source: the operators of these names of ONNX and ai.onnx.ml.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dtypes import logical_name
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.building.integers import minimum
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.strings.operators import codes, lookup
from deploykit.compiler.operators.strings.spans import STRING, string_of, text_of

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Weighting: TypeAlias = Literal["TF", "IDF", "TFIDF"]

MOST_SKIPS = 2**31
"""A limit above the number of items of any row."""


def binarizer(ctx: Context, x: Value, threshold: float) -> Value:
    """1 for each element above the threshold, else 0, in the dtype of `x`."""

    def above(v: ir.Expr) -> ir.Expr:
        dtype = str(v.ty.dtype)
        limit = v if dtype.startswith("float") else tirx.Cast("float64", v)
        over = limit > tirx.const(threshold, str(limit.ty.dtype))
        return tirx.Select(over, tirx.const(1, dtype), tirx.const(0, dtype))

    return elementwise(ctx, "binarizer", above, x)


def label_encoder(ctx: Context, x: Value, keys: np.ndarray, values: np.ndarray, default: float | str) -> Value:
    """`x` with each element that equals `keys[i]` replaced by `values[i]`, and every other element by `default`. Of
    equal keys the last one counts; NaN is a key like any other.

    Raises `Unsupported` if there are not as many values as keys, or if only the keys are strings."""
    if len(keys) != len(values):
        raise Unsupported(f"{len(keys)} keys and {len(values)} values")
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    labels = ctx.constant(np.array([*table.values(), default], values.dtype))
    if values.dtype == object:
        text = text_of(ctx, labels)
        return string_of(_encoded(ctx, x, keys, table, text.spans), text.data)
    return _encoded(ctx, x, keys, table, labels)


def _encoded(ctx: Context, x: Value, keys: np.ndarray, table: dict[Any, Any], labels: Value) -> Value:
    """For each element the label of its key, or the last label if it has no key."""
    if keys.dtype == object:
        if x.dtype != "string":
            raise Unsupported(f"keys that are strings for a tensor of {x.dtype}")
        return lookup(ctx, x, list(table), labels)
    return _searched(ctx, x, keys, table, labels)


def _searched(ctx: Context, x: Value, keys: np.ndarray, table: dict[Any, Any], labels: Value) -> Value:
    """The labels of numbers, found by binary search in the sorted keys."""
    numbers = list(table)
    nameless = next((i for i, key in enumerate(numbers) if key != key), None)  # noqa: PLR0124  NaN
    ordered = sorted((i for i in range(len(numbers)) if i != nameless), key=lambda i: numbers[i])
    dtype = logical_name(keys.dtype)
    names = ctx.constant(np.array([numbers[i] for i in ordered] or [0], keys.dtype))
    places = ctx.constant(np.array(ordered or [0], np.int64))
    flat = ctx.reshape(ctx.cast(x, dtype), (ctx.product(x.shape),))

    def write(code: Code, data: Array, names: Array, places: Array, labels: Array, result: Array) -> None:
        with code.loop("i", flat.shape[0]) as i:
            low, high = code.cell("low", 0), code.cell("high", len(ordered))
            with code.repeat(low.value < high.value):
                middle = code.cell("middle", tirx.floordiv(low.value + high.value, 2))
                below = code.cell("below", names[middle.value] < data[i])
                low.value = tirx.Select(below.value, middle.value + 1, low.value)
                high.value = tirx.Select(below.value, high.value, middle.value)
            result[i] = labels[len(numbers)]
            if nameless is not None:
                with code.when(tirx.isnan(data[i])):
                    result[i] = labels[nameless]
            with code.when(low.value < len(ordered)), code.when(tirx.EQ(names[low.value], data[i])):
                result[i] = labels[places[low.value]]

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("labels", tensors, [((flat.shape[0],), tensors[3].dtype)], write)

    return ctx.reshape(ctx.kernel("labels", build, flat, names, places, labels, dtype=labels.dtype), x.shape)


@dataclass(frozen=True)
class Grams:
    """A pool of n-grams. `items` are the items of all n-grams: first the unigrams, then the bigrams, and so on; those
    of each length start at one of `firsts`. `columns` are the columns of the result in which each n-gram is counted;
    `weights` are those of the n-grams, or empty. Only n-grams of length `shortest` to `longest` are counted. `skips` is
    the number of items that may be skipped between two items of an n-gram."""

    items: Sequence[int] | Sequence[str]
    firsts: Sequence[int]
    columns: Sequence[int]
    weights: Sequence[float]
    shortest: int
    longest: int
    skips: int

    @property
    def width(self) -> int:
        """The number of columns of a result."""
        return max(self.columns) + 1


def tf_idf(ctx: Context, x: Value, grams: Grams, weighting: Weighting) -> Value:
    """The weighted counts of the n-grams in each row of `x`, `[..., items]`, as `[..., columns]` in float32. Strings
    are replaced by their positions among the different items, which are then counted."""
    groups = _groups(len(grams.items), list(grams.firsts))
    _check(grams, groups)
    if x.dtype == STRING:
        words = list(dict.fromkeys(map(str, grams.items)))
        numbers = {word: number for number, word in enumerate(words)}
        x, grams = codes(ctx, x, words), replace(grams, items=[numbers[str(item)] for item in grams.items])
    rows, length, width = x.shape[:-1], x.shape[-1], grams.width
    tables = [
        np.array(grams.items or [0], np.int64),
        np.array(grams.columns, np.int64),
        np.array(grams.weights or [0], np.float32),
    ]

    def count_group(code: Code, row: list[ir.Expr], group: _Group, arrays: tuple[Array, ...]) -> None:
        data, items, places, factors, result = arrays
        strides: IntExpr = 1 if group.size == 1 else minimum(min(grams.skips, MOST_SKIPS), length - 1) + 1
        with loops(code, (group.count, strides)) as (gram, skipped):
            stride, first = skipped + 1, group.first_item + gram * group.size
            column = code.cell("column", places[group.number + gram])
            weighted = grams.weights and weighting != "TF"
            weight = factors[group.number + gram] if weighted else tirx.const(1, "float32")
            with code.loop("i", tirx.max(length - (group.size - 1) * stride, 0)) as i:
                pairs = [(data(*row, i + k * stride), items[first + k]) for k in range(group.size)]
                with code.when(tirx.all(*(tirx.EQ(tirx.Cast("int64", a), b) for a, b in pairs))):
                    result[(*row, column.value)] = weight + (0.0 if weighting == "IDF" else result(*row, column.value))

    def write(code: Code, data: Array, items: Array, places: Array, factors: Array, result: Array) -> None:
        with loops(code, rows) as row:
            with code.loop("j", width) as j:
                result[(*row, j)] = 0.0
            for group in groups[grams.shortest - 1 : grams.longest]:
                count_group(code, row, group, (data, items, places, factors, result))

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("ngrams", tensors, [((*rows, width), "float32")], write)

    return ctx.kernel("ngrams", build, x, *map(ctx.constant, tables), dtype="float32")


@dataclass(frozen=True)
class _Group:
    """The n-grams of one length in the pool: the position of their first item, their length, and the number of n-grams
    before and in the group."""

    first_item: int
    size: int
    number: int
    count: int


def _groups(items: int, firsts: list[int]) -> list[_Group]:
    """The groups of a pool whose n-grams of length 1, 2, ... start at the items `firsts`."""
    if firsts != sorted(firsts) or (firsts and not 0 <= firsts[0] <= firsts[-1] <= items):
        raise Unsupported(f"ngram_counts {firsts} are no ascending positions in a pool of {items} items")
    groups: list[_Group] = []
    number = 0
    for size, (first, end) in enumerate(zip(firsts, [*firsts[1:], items], strict=True), start=1):
        groups.append(_Group(first, size, number, (end - first) // size))
        number += groups[-1].count
    return groups


def _check(grams: Grams, groups: Sequence[_Group]) -> None:
    """Raises `Unsupported` if the pool does not fit its groups."""
    if not 1 <= grams.shortest <= grams.longest <= len(groups):
        raise Unsupported(
            f"n-grams of {grams.shortest} to {grams.longest} items and a pool of those of 1 to {len(groups)}"
        )
    if sum(group.count for group in groups) != len(grams.columns) or min(grams.columns, default=-1) < 0:
        raise Unsupported("ngram_indexes must have a number that is not negative for each n-gram of the pool")
    if grams.weights and len(grams.weights) != len(grams.columns):
        raise Unsupported(f"{len(grams.weights)} weights for {len(grams.columns)} n-grams")
    if grams.skips < 0:
        raise Unsupported(f"max_skip_count is {grams.skips}; the least is 0")
