"""Operators that ONNX Runtime had before the standard, against ONNX Runtime."""

import numpy as np

from tests.frontends.onnx.harness import Check, numbers

SIZES = ((1, 1), (2, 3), (4, 5))


def test_operators_that_became_standard(check: Check) -> None:
    model = """(float[n, m] x, int64[k, 1] i, int64[1, 4] p, float[1] f, float[1, 2, n, m] im,
        float[1, 3, 2, 2] grid)
        => (float[n, m] y0, float[n, m] y1, float[k, m] y2, float[n, 1, m] y3, float[c, d] y4, float[1, 2, 3, 2] y5) {
        y0 = com.microsoft.Trilu(x)
        y1 = com.microsoft.Trilu <upper = 0> (x)
        y2 = com.microsoft.GatherND(x, i)
        axis = Constant <value = int32 {1}> ()
        y3 = com.microsoft.ExpandDims(x, axis)
        y4 = com.microsoft.Pad(x, p, f)
        y5 = com.microsoft.GridSample(im, grid)
    }"""
    runs = [
        {
            "x": numbers(n, m),
            "i": np.array([[0], [n - 1]]),
            "p": np.array([[0, 1, 2, 0]]),
            "f": np.array([3], np.float32),
            "im": numbers(1, 2, n, m),
            "grid": numbers(1, 3, 2, 2) / 4,
        }
        for n, m in SIZES
    ]
    check.like_onnxruntime(model, *runs)


def test_distances(check: Check) -> None:
    model = """(float[n, 6] a, float[m, 6] b) => (float[n, m] y0, float[n, m] y1) {
        y0 = com.microsoft.CDist(a, b)
        y1 = com.microsoft.CDist <metric = "euclidean"> (a, b)
    }"""
    runs = [{"a": numbers(n, 6), "b": numbers(m, 6, seed=1)} for n, m in SIZES]
    check.like_onnxruntime(model, *runs, rtol=1e-3)


def test_unique_values_keep_their_order(check: Check) -> None:
    model = """(float[n] x) => (float[m] y, int64[n] at, int64[m] counts) {
        y, at, counts = com.microsoft.Unique(x)
    }"""
    runs = [{"x": np.array(values, np.float32)} for values in ([3], [2, 1, 2, 2, 5], [1, 1, 0])]
    check.like_onnxruntime(model, *runs, rtol=1e-5)
