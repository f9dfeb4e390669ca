"""Products of 8-bit integers in words of four terms: which ones are, and that all others are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.anchors.integer import DOT, PanelPacking, integer_matmul, packed_array
from deploykit.compiler.schedules.integer.dot import DOTS, PACKED_4X8
from tests.compiler.schedules.test_gpu import N, run, texts

DEPTH, COLUMNS = 24, 40


def product(dtype: str, left: Callable[..., Any], shape: tuple[Any, ...] = (N, DEPTH)) -> tirx.PrimFunc:
    """A product with packed columns, whose left factors are those that `left` gives for a row and a term."""
    packing = PanelPacking(PACKED_4X8, 8, 4, DOTS[PACKED_4X8].offset(dtype))
    x = te.placeholder(shape, dtype, name="x")
    panels = te.placeholder((5, DEPTH // 4, 8, 4), "int8", name="panels")
    depth = te.reduce_axis((0, DEPTH), name="k")

    def element(row: Any, column: Any) -> Any:
        right = panels(column // 8, depth // 4, column % 8, depth % 4).astype("int32")
        return te.sum((left(x, row, depth).astype("int32") + packing.offset) * right, axis=depth)

    attrs = {ANCHOR: "integer_matmul", DOT: PACKED_4X8}
    out = te.compute((N, COLUMNS), element, name="integer_matmul", attrs=attrs)
    return te.create_prim_func([x, panels, out], index_dtype_override="int64")


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_words_of_four_terms(dtype: str) -> None:
    found = texts(product(dtype, lambda x, row, k: x(row, k)))
    assert "dots_of_words(left, right)" in found[0]
    assert ("0x80808080u" in found[0]) == (dtype == "uint8")


def test_they_are_those_of_the_anchor() -> None:
    packing = PanelPacking(PACKED_4X8, 8, 4, -128)
    x = te.placeholder((N, DEPTH), "uint8", name="x")
    panels = te.placeholder((5, DEPTH // 4, 8, 4), "int8", name="panels")
    func = te.create_prim_func([x, panels, integer_matmul(x, panels, COLUMNS, packing)], index_dtype_override="int64")
    assert "dots_of_words(left, right)" in texts(func)[0]


OTHERS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray], tuple[Any, ...]]] = {
    "computed": (lambda x, row, k: tirx.max(x(row, k), tirx.const(3, "uint8")), lambda x: np.maximum(x, 3), (N, DEPTH)),
    "columns": (lambda x, row, k: x(k, row), lambda x: x.T, (DEPTH, N)),
    "backwards": (lambda x, row, k: x(row, DEPTH - 1 - k), lambda x: x[:, ::-1], (N, DEPTH)),
    "shifted": (lambda x, row, k: x(row, k + 1), lambda x: x[:, 1:-3], (N, DEPTH + 4)),
    "every other one": (lambda x, row, k: x(row, 2 * k), lambda x: x[:, ::2], (N, 2 * DEPTH)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_factors_are_taken_one_by_one(name: str) -> None:
    left, expected, shape = OTHERS[name]
    random = np.random.default_rng(0)
    func = product("uint8", left, shape)
    assert "dots_of_words" not in "".join(texts(func))
    weight = random.integers(-128, 128, (DEPTH, COLUMNS)).astype(np.int8)
    panels = packed_array(weight, PanelPacking(PACKED_4X8, 8, 4))
    x = random.integers(0, 256, [5 if size is N else size for size in shape]).astype(np.uint8)
    run(func, [x, panels], (expected(x).astype(np.int32) - 128) @ weight.astype(np.int32))
