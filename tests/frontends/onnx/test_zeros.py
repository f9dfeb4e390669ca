"""Products with a 0 that is known when a model is built. Its products with NaN and infinities are NaN."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, by_onnxruntime, each

X = np.array([-np.inf, np.inf, np.nan, -1, 0, 2], np.float32)

CALLS = [
    "LeakyRelu<alpha = 0.0>(x)",
    "Elu<alpha = 0.0>(x)",
    "Selu<alpha = 0.0, gamma = 1.0>(x)",
    "Selu<alpha = 1.0, gamma = 0.0>(x)",
    "HardSigmoid<alpha = 0.0, beta = 0.5>(x)",
    "Swish<alpha = 0.0>(x)",
    "Mul(x, zeros)",
    "Div(zeros, x)",
    "Mul(x, negative)",
]


def text(dtype: str, zero: object, negative: object) -> str:
    fills = {"zeros": zero, "negative": negative}.items()
    made = " ".join(f"{name} = ConstantOfShape<value = {dtype}[1] {{{value}}}>(s)" for name, value in fills)
    return each(f"{dtype}[n] x", CALLS, 1, dtype).replace("{", f"{{ s = Shape(x) {made}", 1)


@pytest.mark.parametrize(
    ("dtype", "numpy", "fills"),
    [("float", "float32", (0.0, -0.0)), ("double", "float64", (0.0, -0.0)), ("float16", "float16", (0, -(1 << 15)))],
)
def test_elementwise(check: Check, dtype: str, numpy: str, fills: tuple[float, float]) -> None:
    """The expected results are those of ONNX Runtime in float32, the dtype for which it has all operators. ONNX's text
    form writes a float16 as its bits."""
    expected = by_onnxruntime(text("float", 0.0, -0.0), {"x": X}, opset=24)
    feeds = {"x": X.astype(numpy)}
    check(text(dtype, *fills), feeds, opset=24, expected=[[y.astype(numpy) for y in expected[0]]])


def test_products_of_matrices(check: Check) -> None:
    """A `beta` of 0, however, leaves the addend out."""
    text = """(float[m,k] a, float[k,n] b, float[m,n] c) => (float[m,n] y, float[m,n] z) {
        y = Gemm<alpha = 0.0>(a, b, c)  z = Gemm<beta = 0.0>(c, b, a) }"""
    feeds = {"a": X[:, None], "b": np.ones((1, 1), np.float32), "c": np.full((6, 1), 3, np.float32)}
    check(text, feeds, expected=by_onnxruntime(text, feeds))
