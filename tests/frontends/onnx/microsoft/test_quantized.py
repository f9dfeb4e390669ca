"""What ONNX Runtime's quantiser writes, against ONNX Runtime. Quantised results may differ by one."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from tests.frontends.onnx.harness import Check, by_onnxruntime, graph, numbers, parse

STEP = "<float xs = {0.05}, float ys = {0.07}, uint8 xz = {10}, uint8 yz = {120}, int8 xi = {-3}, int8 yi = {4}>"
SIZES = [(1, 4, 5), (2, 4, 3), (3, 4, 8)]


def within_one(check: Check, model: onnx.ModelProto | str, *runs: Mapping[str, np.ndarray]) -> None:
    """Integers differ by at most one, and floats by little."""
    model = parse(model, 17) if isinstance(model, str) else model
    with check.session(model, *runs) as session:
        for feeds, wanted in zip(runs, by_onnxruntime(model, *runs), strict=True):
            for (name, got), want in zip(session.run(feeds).items(), wanted, strict=True):
                assert (got.dtype, got.shape) == (want.dtype, want.shape), name
                if want.dtype.kind == "f":
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=name)
                else:
                    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1, name


def integers(*shape: int, dtype: str = "uint8", seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def few_bits(*shape: int, seed: int = 0) -> np.ndarray:
    """Weights of 7 bits: ONNX Runtime adds two products in 16 bits where a CPU has no instruction for more."""
    return integers(*shape, dtype="int8", seed=seed) // 2


def test_elementwise_operators(check: Check) -> None:
    calls = {
        "uint8[n, 4, t] y0": "com.microsoft.QLinearAdd(x, xs, xz, b, ys, yz, ys, yz)",
        "uint8[n, 4, t] y1": "com.microsoft.QLinearMul(x, xs, xz, x, xs, xz, ys, yz)",
        "uint8[n, 4, t] y2": "com.microsoft.QLinearSigmoid(x, xs, xz, ss, zero)",
        "int8[n, 4, t] y3": "com.microsoft.QLinearLeakyRelu <alpha = 0.2> (i, xs, xi, ys, yi)",
        "uint8[n, 4, t] y4": "com.microsoft.QLinearSoftmax <axis = 1, opset = 13> (x, xs, xz, ss, zero)",
        "uint8[n, 4, t] y5": "com.microsoft.QLinearSoftmax <axis = 1, opset = 9> (x, xs, xz, ss, zero)",
        "uint8[n, 4, t] y6": "com.microsoft.QLinearWhere(c, x, xs, xz, x, ys, yz, xs, xz)",
        "int8[n, 4, t] y7": "com.microsoft.QLinearAdd(i, xs, xi, i, xs, xi, ys)",
    }
    values = STEP.replace(">", ", float ss = {0.00390625}, uint8 zero = {0}>")
    inputs = "uint8[n, 4, t] x, uint8[4, 1] b, int8[n, 4, t] i, bool[n, 1, t] c"
    runs = [
        {
            "x": integers(*size),
            "b": integers(4, 1, seed=1),
            "i": integers(*size, dtype="int8", seed=2),
            "c": integers(size[0], 1, size[2], seed=3) > 100,
        }
        for size in SIZES
    ]
    within_one(check, graph(inputs, calls, values), *runs)


def test_pooling_and_joining(check: Check) -> None:
    calls = {
        "uint8[n, 4, h, w] y0": "com.microsoft.QLinearAveragePool <kernel_shape = [2, 3], pads = [0, 1, 1, 1]> "
        "(x, xs, xz, ys, yz)",
        "uint8[n, a, b, w] y1": "com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], channels_last = 1> "
        "(x, xs, xz, xs, xz)",
        "uint8[n, 4, o, p] y2": "com.microsoft.QLinearGlobalAveragePool(x, xs, xz, ys, yz)",
        "uint8[n, o, p, w] y3": "com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (x, xs, xz, ys, yz)",
        "uint8[n, 8, h, w] y4": "com.microsoft.QLinearConcat <axis = 1> (ys, yz, x, xs, xz, x, ys, yz)",
        "uint8[n, a, b, w] y5": "com.microsoft.NhwcMaxPool <kernel_shape = [2, 2]> (x)",
    }
    runs = [{"x": integers(n, 4, h, w)} for n, h, w in ((1, 2, 3), (2, 5, 4))]
    within_one(check, graph("uint8[n, 4, h, w] x", calls, STEP), *runs)


def test_products(check: Check) -> None:
    model = """(uint8[n, 6] x, float[n, 6] f)
        => (uint8[n, 5] y0, float[n, 5] y1, float[n, 5] y2, float[n, 5] y3, float[n, 5] y4)
        <float xs = {0.05}, uint8 xz = {10}, float ys = {2.5}, uint8 yz = {120}, float ws = {0.1}, int8 wz = {0},
         float[5] cs = {0.1, 0.2, 0.05, 0.1, 0.3}, int8[5] cz = {0, 1, 0, -2, 0}, int32[5] c = {10, -300, 0, 7, 500},
         float[5] b = {1, 2, 3, 4, 5}> {
        y0 = com.microsoft.QGemm <transB = 1> (x, xs, xz, w, ws, wz, c, ys, yz)
        y1 = com.microsoft.QGemm <transB = 1, alpha = 0.5> (x, xs, xz, w, cs, cz)
        t = Transpose(w)
        y2 = com.microsoft.MatMulIntegerToFloat(x, t, xs, cs, xz, cz, b)
        y3 = com.microsoft.DynamicQuantizeMatMul(f, t, ws, wz, b)
        y4 = com.microsoft.DynamicQuantizeMatMul(f, t, cs)
    }"""
    weights = onnx.numpy_helper.from_array(few_bits(5, 6), "w")
    built = parse_with(model, weights)
    within_one(check, built, *({"x": integers(n, 6), "f": numbers(n, 6)} for n in (1, 2, 5)))


def parse_with(text: str, *tensors: onnx.TensorProto) -> onnx.ModelProto:
    """The model with further initializers, which its text reads."""
    model = parse(text, 17)
    model.graph.initializer.extend(tensors)
    return model


def test_quantization_to_16_bits(check: Check) -> None:
    calls = {
        "uint16[n, 4, t] y0": "com.microsoft.QuantizeLinear(x, s, z)",
        "float[n, 4, t] y1": "com.microsoft.DequantizeLinear(i, s, z)",
        "int16[n, 4, t] y2": "com.microsoft.QuantizeLinear <axis = 1> (x, a, az)",
        "float[n, 4, t] y3": "com.microsoft.DequantizeLinear <axis = 1> (y2, a, az)",
    }
    values = """<float s = {0.001}, uint16 z = {3000}, float[4] a = {0.001, 0.002, 0.0005, 0.01},
        int16[4] az = {0, 10, -1000, 0}>"""
    runs = [{"x": numbers(*size), "i": integers(*size, dtype="uint16")} for size in SIZES]
    within_one(check, graph("float[n, 4, t] x, uint16[n, 4, t] i", calls, values), *runs)


@pytest.mark.parametrize("scales", ["[1]", "[1, 12]"])
def test_lstm_with_weights_of_8_bits(check: Check, scales: str) -> None:
    shape = [1, 12] if "," in scales else [1]
    zeros = onnx.numpy_helper.from_array(np.zeros(shape, np.int8), "z")
    steps = [
        onnx.numpy_helper.from_array(np.abs(numbers(*shape, seed=i)).astype(np.float32) / 400 + 0.001, name)
        for i, name in enumerate(("ws", "rs"))
    ]
    w = onnx.numpy_helper.from_array(few_bits(1, 5, 12), "w")
    r = onnx.numpy_helper.from_array(few_bits(1, 3, 12, seed=1), "r")
    model = parse_with(
        """(float[t, n, 5] x) => (float[t, 1, n, 3] y, float[1, n, 3] h, float[1, n, 3] c) {
            y, h, c = com.microsoft.DynamicQuantizeLSTM <hidden_size = 3> (x, w, r, , , , , , ws, z, rs, z)
        }""",
        *(w, r, zeros, *steps),
    )
    runs = [{"x": numbers(t, n, 5)} for t, n in ((1, 1), (3, 2), (4, 3))]
    check(model, *runs, expected=by_onnxruntime(model, *runs), rtol=0.05)


def test_quantized_attention(check: Check) -> None:
    model = parse_with(
        """(uint8[n, t, 6] x, int32[n] m) => (float[n, t, 8] y)
            <float xs = {0.01}, float ws = {0.01}, uint8 xz = {120}, int8 wz = {2}> {
            y = com.microsoft.QAttention <num_heads = 2> (x, w, b, xs, ws, m, xz, wz)
        }""",
        onnx.numpy_helper.from_array(few_bits(6, 24), "w"),
        onnx.numpy_helper.from_array(numbers(24), "b"),
    )
    runs = [{"x": integers(n, t, 6), "m": np.full(n, t, np.int32)} for n, t in ((1, 1), (2, 3), (3, 5))]
    within_one(check, model, *runs)
