"""What ONNX Runtime's optimiser fuses, and normalisations of language models, against ONNX Runtime."""

import numpy as np

from tests.frontends.onnx.harness import Check, graph, numbers


def test_activations(check: Check) -> None:
    calls = {
        "float[n, 6] y0": "com.microsoft.Gelu(x)",
        "float[n, 6] y1": "com.microsoft.BiasGelu(x, b)",
        "float[n, 6] y2": "com.microsoft.FastGelu(x)",
        "float[n, 6] y3": "com.microsoft.FastGelu(x, b)",
        "float[n, 6] y4": "com.microsoft.QuickGelu(x)",
        "float[n, 6] y5": "com.microsoft.QuickGelu <alpha = 0.7> (x)",
    }
    check.like_onnxruntime(
        graph("float[n, 6] x, float[6] b", calls), *({"x": numbers(n, 6), "b": numbers(6)} for n in (1, 3, 8))
    )


def test_softmax_with_a_bias(check: Check) -> None:
    """ONNX Runtime has no kernel for CPUs: NumPy is the reference."""
    model = graph(
        "float[n, 2, t, s] x, float[n, 1, 1, s] b",
        {"float[n, 2, t, s] y": "com.microsoft.BiasSoftmax <axis = 3, is_inner_broadcast = 1> (x, b)"},
    )
    runs = [{"x": numbers(n, 2, t, s), "b": numbers(n, 1, 1, s, seed=1)} for n, t, s in ((1, 1, 1), (2, 3, 5))]
    totals = [run["x"] + run["b"] for run in runs]
    powers = [np.exp(total - total.max(-1, keepdims=True)) for total in totals]
    check(model, *runs, expected=[[power / power.sum(-1, keepdims=True)] for power in powers], opset=17)


def test_products(check: Check) -> None:
    model = """(float[n, 6, t] x, float[6, 4] w, float[n, 4, 6] v, float[t, n, 6] z, float[4] c, float[6, n] g)
        => (float[n, t, 4] y0, float[n, t, 4] y1, float[n, t, 4] y2, float[n, 4] y3, float[n, 4] y4) {
        y0 = com.microsoft.FusedMatMul <transA = 1, alpha = 0.5> (x, w)
        y1 = com.microsoft.FusedMatMul <transA = 1, transB = 1> (x, v)
        y2 = com.microsoft.FusedMatMul <transBatchA = 1, transB = 1> (z, v)
        y3 = com.microsoft.FusedGemm <transA = 1, alpha = 2.0, beta = 0.5, activation = "Relu"> (g, w, c)
        y4 = com.microsoft.FusedGemm <transA = 1, activation = "LeakyRelu", activation_alpha = 0.3> (g, w, c)
    }"""
    runs = [
        {
            "x": numbers(n, 6, t),
            "w": numbers(6, 4, seed=1),
            "v": numbers(n, 4, 6, seed=2),
            "z": numbers(t, n, 6, seed=3),
            "c": numbers(4, seed=4),
            "g": numbers(6, n, seed=5),
        }
        for n, t in ((1, 1), (2, 3), (3, 5))
    ]
    check.like_onnxruntime(model, *runs)


def test_convolutions(check: Check) -> None:
    model = """(float[n, 3, h, w] x, float[4, 3, 3, 3] f, float[4] b, float[n, 4, h, w] z)
        => (float[n, 4, h, w] y0, float[n, 4, h, w] y1, float[n, 4, h, w] y2) {
        y0 = com.microsoft.FusedConv <pads = [1, 1, 1, 1], activation = "Relu"> (x, f, b, z)
        y1 = com.microsoft.FusedConv <pads = [1, 1, 1, 1], activation = "LeakyRelu", activation_params = [0.1]> (x, f)
        y2 = com.microsoft.FusedConv <auto_pad = "SAME_UPPER", activation = "Clip", activation_params = [0.0, 6.0]>
            (x, f, b)
    }"""
    runs = [
        {"x": numbers(n, 3, h, w), "f": numbers(4, 3, 3, 3) / 8, "b": numbers(4), "z": numbers(n, 4, h, w, seed=1)}
        for n, h, w in ((1, 3, 3), (2, 5, 4))
    ]
    check.like_onnxruntime(model, *runs)


def test_products_of_16_bits(check: Check) -> None:
    """Sums may exceed 32 bits; they wrap."""
    model = "(int16[n, k] a, int16[k, 5] b) => (int32[n, 5] y) { y = com.microsoft.MatMulInteger16(a, b) }"
    runs = []
    for n, k in ((1, 1), (3, 7), (2, 4)):
        a, b = (np.random.default_rng(n).integers(-(1 << 15), 1 << 15, s).astype(np.int16) for s in ((n, k), (k, 5)))
        runs.append({"a": a, "b": b})
    check.like_onnxruntime(model, *runs)


def test_layer_normalisations(check: Check) -> None:
    model = """(float[n, t, 8] x, float[n, t, 8] s, float[t, 8] s2, float[8] g, float[8] b)
        => (float[n, t, 8] y0, float[n, t, 8] y1, float[n, t, 8] z1, float[n, t, 8] y2, float[n, t, 8] z2,
            float[n, t, 8] y3) {
        y0 = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-6> (x, g)
        y1, _a, _b, z1 = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, s, g, b, g)
        y2, _c, _d, z2 = com.microsoft.SkipSimplifiedLayerNormalization (x, s, g, b)
        y3 = com.microsoft.SkipLayerNormalization (x, s2, g)
    }""".replace("_a, _b,", ", ,").replace("_c, _d,", ", ,")
    runs = [
        {
            "x": numbers(n, t, 8),
            "s": numbers(n, t, 8, seed=1),
            "s2": numbers(t, 8, seed=2),
            "g": numbers(8, seed=3),
            "b": numbers(8, seed=4),
        }
        for n, t in ((1, 1), (2, 3), (3, 5))
    ]
    check.like_onnxruntime(model, *runs)


def test_embeddings(check: Check) -> None:
    model = """(int32[n, t] ids, int32[n, t] segments, int32[n, t] m, int32[n, t] at, float[9, 8] words,
        float[12, 8] places, float[2, 8] parts, float[8] g, float[8] b)
        => (float[n, t, 8] y0, int32[n] c0, float[n, t, 8] y1, int32[n] c1, float[n, t, 8] z1) {
        y0, c0 = com.microsoft.EmbedLayerNormalization (ids, segments, words, places, parts, g, b, m)
        y1, c1, z1 = com.microsoft.EmbedLayerNormalization (ids, , words, places, , g, b, , at)
    }"""
    random = np.random.default_rng(0)
    runs = [
        {
            "ids": random.integers(0, 9, (n, t)).astype(np.int32),
            "segments": random.integers(0, 2, (n, t)).astype(np.int32),
            "m": random.integers(0, 2, (n, t)).astype(np.int32),
            "at": random.integers(0, 12, (n, t)).astype(np.int32),
            "words": numbers(9, 8),
            "places": numbers(12, 8, seed=1),
            "parts": numbers(2, 8, seed=2),
            "g": numbers(8, seed=3),
            "b": numbers(8, seed=4),
        }
        for n, t in ((1, 1), (2, 3), (3, 5))
    ]
    check.like_onnxruntime(model, *runs)
