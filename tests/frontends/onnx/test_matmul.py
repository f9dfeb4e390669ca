"""Matrix products over symbolic sizes, with the semantics of numpy, compared with the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest

import deploykit
from tests.frontends.onnx.harness import Check, each, numbers, parse

INTEGERS = ("int32", "int64", "uint32", "uint64")


def test_ranks(check: Check) -> None:
    text = """(float[k] v, float[b,m,k] a, float[k,n] w) => (float y0, float[n] y1, float[b,m] y2, float[b,m,n] y3) {
        y0 = MatMul(v, v)  y1 = MatMul(v, w)  y2 = MatMul(a, v)  y3 = MatMul(a, w) }"""
    for_sizes = (
        {"v": numbers(k), "a": numbers(b, m, k), "w": numbers(k, n)} for b, m, k, n in ((1, 1, 1, 1), (2, 3, 4, 5))
    )
    check(text, *for_sizes, rtol=1e-4)


def test_batches_that_broadcast_at_run_time(check: Check) -> None:
    text = "(float[b,s,4] x, float[c,4,n] w) => (float[d,s,n] y) { y = MatMul(x, w) }"
    pairs = ((2, 2), (1, 3), (3, 1))
    check(text, *({"x": numbers(b, 3, 4), "w": numbers(c, 4, 5)} for b, c in pairs), rtol=1e-4)


def test_reshaped_product_of_batches_that_broadcast_at_run_time(check: Check) -> None:
    text = """(float[m, 3, 4] x, float[k, 4, 6] y) => (float[r, 2, 9] z)
    { p = MatMul(x, y)  t = Transpose <perm = [0, 2, 1]> (p)
      shape = Constant <value_ints = [-1, 2, 9]> ()  z = Reshape(t, shape) }"""
    runs = [{"x": numbers(m, 3, 4), "y": numbers(k, 4, 6)} for m, k in ((2, 2), (1, 3), (3, 1), (1, 1))]
    check(text, *runs)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*INTEGERS, "float64", "float16"])
def test_dtypes(check: Check, dtype: str) -> None:
    name = {"float64": "double"}.get(dtype, dtype)
    text = each(f"{name}[m,k] a, {name}[n,k] b, {name}[n] c", ["Gemm<transB=1, alpha=0.5, beta=2.0>(a,b,c)"], 2, name)
    values = {n: np.abs(numbers(*s, seed=i)).astype(dtype) for i, (n, s) in enumerate((("a", (3, 4)), ("b", (5, 4))))}
    check(text, {**values, "c": np.arange(5).astype(dtype)}, rtol=1e-3 if dtype == "float16" else 1e-6)


def test_gemm_flags_and_addends(check: Check) -> None:
    calls = [
        "Gemm<transA=1, transB=1, alpha=0.5, beta=2.0>(a, b, c)",
        "Gemm<transA=1, transB=1>(a, b)",
        "Gemm<transA=1, transB=1, beta=0.0>(a, b, c)",
    ]
    text = each("float[k,m] a, float[n,k] b, float[p,q] c", calls, 2)
    addends = ((3, 5), (1, 5), (3, 1), (1, 1))
    check(text, *({"a": numbers(4, 3), "b": numbers(5, 4), "c": numbers(*shape)} for shape in addends), rtol=1e-4)


def test_inner_sizes_that_differ_are_refused() -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="inner sizes 3 and 4"):
        deploykit.load(parse(each("float[2,3] a, float[4,2] b", ["MatMul(a, b)"], 2)))
