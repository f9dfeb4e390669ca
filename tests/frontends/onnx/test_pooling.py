"""Pooling over symbolic sizes against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import deploykit
from tests.frontends.onnx.harness import Check, by_onnxruntime, each, numbers

SHAPES = [(1, 2, 7, 9), (2, 1, 8, 10)]
PADS = ['auto_pad="SAME_UPPER"', 'auto_pad="SAME_LOWER"', 'auto_pad="VALID"', "pads=[1,0,1,2]", "dilations=[2,2]"]
CEIL = ["ceil_mode=1", "ceil_mode=1, pads=[1,1,1,1]"]


def compare(check: Check, text: str, *runs: dict[str, np.ndarray]) -> None:
    check(text, *runs, expected=by_onnxruntime(text, *runs), rtol=1e-4)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_windows(check: Check, operator: str) -> None:
    extra = ["pads=[1,1,1,1], count_include_pad=1, ceil_mode=1"] if operator == "AveragePool" else []
    options = [f"{option}, strides=[2,3]" for option in (*PADS, *CEIL, *extra)]
    text = each("float[n,c,h,w] x", [f"{operator}<kernel_shape=[3,3], {o}>(x)" for o in options], 4)
    compare(check, text, *({"x": numbers(*shape)} for shape in SHAPES))


@pytest.mark.parametrize("order", [0, 1])
def test_positions_of_maxima(check: Check, order: int) -> None:
    text = f"""(float[n,c,h,w] x) => (float[n,c,p,q] y, int64[n,c,p,q] i) {{
        y, i = MaxPool<kernel_shape=[3,2], pads=[1,0,1,1], strides=[2,1], storage_order={order}>(x) }}"""
    compare(check, text, *({"x": numbers(*shape)} for shape in SHAPES), {"x": np.zeros((1, 1, 4, 4), np.float32)})


@pytest.mark.parametrize("dtype", ["double", "uint8", "int8"])
def test_maxima_of_other_dtypes(check: Check, dtype: str) -> None:
    text = each(f"{dtype}[n,c,h] x", ["MaxPool<kernel_shape=[3], pads=[1,1]>(x)"], 3, dtype)
    numpy_name = {"double": "float64"}.get(dtype, dtype)
    compare(check, text, {"x": (numbers(2, 3, 7) * 5 + 30).astype(numpy_name)})


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_larger_than_the_data_are_refused(check: Check, operator: str) -> None:
    text = each("float[n,c,h,w] x", [f"{operator}<kernel_shape=[1,4], strides=[1,2]>(x)"], 4)
    for width in (1, 2, 3):
        with pytest.raises(deploykit.ShapeError, match=f"larger than spatial axis 1 of size {width}"):
            check(text, {"x": numbers(1, 1, 2, width)}, expected=[[]])


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_global_pooling(check: Check, rank: int) -> None:
    operators = ["GlobalMaxPool(x)", "GlobalAveragePool(x)", "GlobalLpPool<p=3>(x)", "GlobalLpPool<p=1>(x)"]
    text = each(f"float[{','.join('abcde'[:rank])}] x", operators, rank)
    compare(check, text, {"x": numbers(*(2, 3, 4, 2, 5)[:rank])}, {"x": numbers(*[1] * rank)})


def test_maximum_of_minus_infinity(check: Check) -> None:
    text = each("float[n,c,h] x", ["MaxPool<kernel_shape=[2], pads=[1,1]>(x)"], 3)
    lowest = np.full((1, 1, 3), -np.inf, np.float32)
    check(text, {"x": lowest}, expected=[[np.full((1, 1, 4), -np.inf, np.float32)]])
