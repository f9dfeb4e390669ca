"""Fourier transforms and tables of signal processing over symbolic and run-time sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, by_onnxruntime, each, numbers

CALLS = ["DFT(x)", "DFT<inverse = 1>(x)"]
LENGTHS = [(2, 6, 5), (1, 1, 1), (1, 7, 3)]


@pytest.mark.parametrize("parts", [1, 2])
def test_symbolic_lengths(check: Check, parts: int) -> None:
    calls = [*CALLS, "DFT<onesided = 1>(x)"] if parts == 1 else CALLS
    text = each(f"float[b,n,m,{parts}] x", calls, 4)
    check(text, *({"x": numbers(*shape, parts)} for shape in LENGTHS), opset=20, rtol=1e-4)


def test_runtime_axis_and_length(check: Check) -> None:
    text = """(float[b,n,m,1] x, int64 l, int64 a) => (float[c,d,e,f] y, float[g,h,i,j] z) {
        y = DFT(x, l, a)  z = DFT<onesided = 1>(x, , a) }"""
    values = [(4, 1), (9, -2), (3, 0)]
    runs = ({"x": numbers(2, 6, 5, 1), "l": np.array(length), "a": np.array(axis)} for length, axis in values)
    check(text, *runs, opset=20, rtol=1e-4)


def test_one_sided_inverse(check: Check) -> None:
    text = """(float[b,n,2] x, int64 l) => (float[b,c,d] y, float[b,e,f] z) {
        y = DFT<inverse = 1, onesided = 1>(x)  z = DFT<inverse = 1, onesided = 1>(x, l) }"""
    runs = ({"x": numbers(2, n, 2), "l": np.array(length)} for n, length in ((6, 9), (4, 4), (4, 12)))
    check(text, *runs, opset=20, rtol=1e-4)


def test_constant_matrices_agree_with_computed_ones(check: Check) -> None:
    calls = [*CALLS, "DFT<onesided = 1>(x)"]
    check(each("double[b,12,1] x", calls, 3, "double"), {"x": numbers(2, 12, 1, dtype="float64")}, opset=17, rtol=1e-9)


def test_short_time_transform(check: Check) -> None:
    text = """(float[b,n,1] x, int64 s, float[w] f, int64 l)
        => (float[b,c,d,2] y, float[b,e,g,2] z, float[b,h,i,2] v) {
        y = STFT(x, s, f)  z = STFT<onesided = 0>(x, s, f, l)  v = STFT(x, s, , l) }"""
    sizes = [(40, 5, 16), (33, 3, 8), (16, 4, 16)]
    runs = ({"x": numbers(2, n, 1), "s": np.array(step), "f": numbers(w), "l": np.array(w)} for n, step, w in sizes)
    check(text, *runs, opset=17, rtol=1e-4)


def test_short_time_transform_of_a_signal_without_an_axis_of_parts(check: Check) -> None:
    """ONNX Runtime accepts such a signal, and models contain it."""
    text = "(float[b,n] x, int64 s, float[w] f) => (float[b,c,d,2] y) { y = STFT(x, s, f) }"
    runs = [{"x": numbers(b, n), "s": np.array(5), "f": numbers(16)} for b, n in ((2, 40), (1, 16))]
    check(text, *runs, opset=17, expected=by_onnxruntime(text, *runs, opset=17), rtol=1e-4)


@pytest.mark.parametrize("operator", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows(check: Check, operator: str) -> None:
    text = f"""(int64 n) => (float[a] y, double[b] z) {{
        y = {operator}(n)  z = {operator}<periodic = 0, output_datatype = 11>(n) }}"""
    runs = [{"n": np.array(n)} for n in (7, 2, 100)]
    check(text, *runs, opset=17, expected=by_onnxruntime(text, *runs, opset=17), rtol=1e-6)


def test_mel_weights(check: Check) -> None:
    text = each("int64 n, int64 l, int64 r, float a, float b", ["MelWeightMatrix(n, l, r, a, b)"], 2)
    sizes = [(20, 400, 16000, 8000), (8, 16, 8192, 4096)]
    runs = (
        {
            **{k: np.array(v) for k, v in zip("nlr", (n, length, rate), strict=True)},
            "a": np.float32(0),
            "b": np.float32(top),
        }
        for n, length, rate, top in sizes
    )
    check(text, *({k: np.asarray(v) for k, v in run.items()} for run in runs), opset=17)
