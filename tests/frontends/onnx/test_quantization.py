"""Quantisation with symbolic dims: granularities, and products of quantised tensors, compared with numpy."""

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, numbers


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_granularities(check: Check, dtype: str) -> None:
    model = f"""(float[n, m, 4] x, float s, {dtype} z, float[m] rows, {dtype}[m] row_zeros, float[n, m, 2] blocks) =>
        ({dtype}[n, m, 4] a, {dtype}[n, m, 4] b, {dtype}[n, m, 4] c, float[n, m, 4] d, float[n, m, 4] e) {{
        a = QuantizeLinear(x, s, z)
        b = QuantizeLinear <axis = 1> (x, rows, row_zeros)
        c = QuantizeLinear <axis = 2, block_size = 2, output_dtype = {_code(dtype)}> (x, blocks)
        d = DequantizeLinear <axis = -2> (b, rows, row_zeros)
        e = DequantizeLinear <axis = 2, block_size = 2> (c, blocks)
    }}"""
    runs = []
    for n, m in ((1, 1), (2, 5)):
        rng = np.random.default_rng(n)
        runs.append(
            {
                "x": numbers(n, m, 4) * 20,
                "s": np.float32(0.37),
                "z": np.asarray(7, dtype),
                "rows": rng.uniform(0.1, 2, m).astype(np.float32),
                "row_zeros": rng.integers(0, 9, m).astype(dtype),
                "blocks": rng.uniform(0.1, 2, (n, m, 2)).astype(np.float32),
            }
        )
    check(model, *runs)


def _code(dtype: str) -> int:
    return {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}[dtype]


@pytest.mark.parametrize("code", [17, 18, 19, 20, 21, 22, 23, 25, 26])
def test_narrow_dtypes_round_trip(check: Check, code: int) -> None:
    model = f"""(float[n, m] x, float[m] s) => (float[n, m] y) {{
        q = QuantizeLinear <axis = 1, output_dtype = {code}> (x, s)
        y = DequantizeLinear <axis = 1> (q, s)
    }}"""
    runs = [{"x": numbers(n, m), "s": np.linspace(0.1, 1, m, dtype=np.float32)} for n, m in ((1, 1), (3, 5))]
    check(model, *runs, opset=25)


def test_dynamic_quantization_uses_the_range_of_the_data(check: Check) -> None:
    model = "(float[n, m] x) => (uint8[n, m] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }"
    runs = [{"x": x} for x in (numbers(3, 5), numbers(1, 1) + 30, np.zeros((2, 2), np.float32), -(numbers(4, 2) ** 2))]
    check(model, *runs)


def test_matrices(check: Check) -> None:
    model = """(uint8[n, k] a, uint8[k, m] b, float sa, uint8 za, float[m] sb, uint8[m] zb, float sy, uint8 zy) =>
        (uint8[n, m] y, int32[n, m] exact, int32[n, m] plain) {
        y = QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)
        exact = MatMulInteger(a, b, za, zb)
        plain = MatMulInteger(a, b)
    }"""
    runs, expected = [], []
    for n, k, m in ((1, 1, 1), (3, 17, 5)):
        rng = np.random.default_rng(n)
        a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((n, k), (k, m)))
        sb, zb = rng.uniform(0.01, 0.02, m).astype(np.float32), rng.integers(100, 140, m).astype(np.uint8)
        exact = (a.astype(np.int32) - 120) @ (b.astype(np.int32) - zb.astype(np.int32))
        y = np.clip(np.rint(exact * (0.02 * sb.astype(np.float64) / 0.5)) + 128, 0, 255).astype(np.uint8)
        scalars = {"sa": np.float32(0.02), "za": np.uint8(120), "sy": np.float32(0.5), "zy": np.uint8(128)}
        runs.append({"a": a, "b": b, "sb": sb, "zb": zb, **scalars})
        expected.append([y, exact, a.astype(np.int32) @ b.astype(np.int32)])
    check(model, *runs, expected=expected)


def test_convolutions(check: Check) -> None:
    model = """(uint8[n, 2, h, h] x, int8[3, 2, 3, 3] w, int8[3] zw, float[3] sw, int32[3] bias) =>
        (int32[n, 3, h, h] exact, uint8[n, 3, h, h] y) {
        sx = Constant <value = float {0.05}> ()
        zx = Constant <value = uint8 {128}> ()
        sy = Constant <value = float {0.5}> ()
        zy = Constant <value = uint8 {100}> ()
        exact = ConvInteger <pads = [1, 1, 1, 1]> (x, w, zx, zw)
        y = QLinearConv <pads = [1, 1, 1, 1]> (x, sx, zx, w, sw, zw, sy, zy, bias)
    }"""
    runs, expected = [], []
    for n, h in ((1, 1), (2, 6)):
        rng = np.random.default_rng(h)
        feeds = {
            "x": rng.integers(0, 256, (n, 2, h, h)).astype(np.uint8),
            "w": rng.integers(-128, 128, (3, 2, 3, 3)).astype(np.int8),
            "zw": np.array([-1, 0, 3], np.int8),
            "sw": np.array([0.01, 0.02, 0.03], np.float32),
            "bias": np.array([100, -200, 300], np.int32),
        }
        runs.append(feeds)
        expected.append(_convolved(**feeds))
    check(model, *runs, expected=expected)


def _convolved(x: np.ndarray, w: np.ndarray, zw: np.ndarray, sw: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
    size = x.shape[2]
    padded = np.pad(x.astype(np.int32) - 128, ((0, 0), (0, 0), (1, 1), (1, 1)))
    weights = w.astype(np.int32) - zw.astype(np.int32).reshape(3, 1, 1, 1)
    exact = np.zeros((x.shape[0], 3, size, size), np.int32)
    for i in range(3):
        for j in range(3):
            exact += np.einsum("nchw,mc->nmhw", padded[:, :, i : i + size, j : j + size], weights[:, :, i, j])
    factor = np.float32(0.05) * sw / np.float32(0.5)
    y = np.rint((exact + bias.reshape(3, 1, 1)) * factor.reshape(3, 1, 1).astype(np.float64)) + 100
    return [exact, np.clip(y, 0, 255).astype(np.uint8)]


def test_tensors_named_as_what_shaders_name(check: Check) -> None:
    """Shaders load and store small elements by functions, which have names of their own."""
    model = """(int8[n, 4] i, int8[n, 4] value, int8[n, 4] parts)
        => (int8[n, 4] word, int8[n, 4] bits, bool[n, 4] kind, int8[n, 4] at) {
        at = Abs(i)
        word = Add(i, value)
        bits = Sub(value, parts)
        kind = Less(i, parts)
    }"""
    runs = [
        {name: np.random.default_rng(k + n).integers(-60, 60, (n, 4)).astype(np.int8) for k, name in enumerate(names)}
        for n in (1, 3, 8)
        for names in [("i", "value", "parts")]
    ]
    check(model, *runs)
