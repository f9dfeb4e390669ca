"""Encoders of single values: Binarizer, LabelEncoder (ai.onnx.ml; numbers only), TfIdfVectorizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx

from deploykit.compiler.dtypes import logical_dtype
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.string_operators import lookup
from deploykit.compiler.operators.value import Value


def encoded(ctx: Context, x: Value, keys: np.ndarray, table: dict[Any, Any], labels: Value) -> Value:
    """Of `labels` the one at the place of its key for each element, else the last one."""
    if keys.dtype == object:
        if x.dtype != "string":
            raise Unsupported(f"keys that are strings for a tensor of {x.dtype}")
        return lookup(ctx, x, list(table), labels)
    return _searched(ctx, x, keys, table, labels)


def _searched(ctx: Context, x: Value, keys: np.ndarray, table: dict[Any, Any], labels: Value) -> Value:
    """A search by halves in the sorted keys."""
    numbers = list(table)
    nameless = next((i for i, key in enumerate(numbers) if key != key), None)  # noqa: PLR0124  NaN
    ordered = sorted((i for i in range(len(numbers)) if i != nameless), key=lambda i: numbers[i])
    dtype = logical_dtype(keys.dtype)
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
class Group:
    """The n-grams of one length in the pool: their first item, length, number of them before and in the group."""

    first_item: int
    size: int
    number: int
    count: int


def groups_of(items: int, firsts: list[int]) -> list[Group]:
    """The groups of a pool whose n-grams of length 1, 2, ... start at the items `firsts`."""
    if firsts != sorted(firsts) or (firsts and not 0 <= firsts[0] <= firsts[-1] <= items):
        raise Unsupported(f"ngram_counts {firsts} are no ascending positions in a pool of {items} items")
    groups: list[Group] = []
    number = 0
    for size, (first, end) in enumerate(zip(firsts, [*firsts[1:], items], strict=True), start=1):
        groups.append(Group(first, size, number, (end - first) // size))
        number += groups[-1].count
    return groups
