"""Attention, MultiHeadAttention and GroupQueryAttention of ONNX Runtime, against ONNX Runtime."""

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, numbers

SIZES = [(1, 1), (2, 5), (3, 4)]
"""Batches and lengths."""


def projected(batch: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The operands of Attention for 2 heads of size 4, with an input of 6 channels."""
    return {
        "x": numbers(batch, length, 6, seed=seed) / 4,
        "w": numbers(6, 24, seed=seed + 1) / 4,
        "b": numbers(24, seed=seed + 2) / 4,
    }


@pytest.mark.parametrize("attributes", ["", ", unidirectional = 1", ", scale = 0.3, mask_filter_value = -50.0"])
@pytest.mark.parametrize("shape", ["n, t", "n, t, t", "n"])
def test_attention_with_masks(check: Check, shape: str, attributes: str) -> None:
    model = f"""(float[n, t, 6] x, float[6, 24] w, float[24] b, int32[{shape}] m) => (float[n, t, 8] y) {{
        y = com.microsoft.Attention <num_heads = 2 {attributes}> (x, w, b, m)
    }}"""
    runs = []
    for seed, (batch, length) in enumerate(SIZES):
        generator = np.random.default_rng(seed)
        sizes = {"n": batch, "t": length}
        if shape == "n":
            mask = generator.integers(1, length + 1, batch)
        else:
            mask = generator.integers(0, 2, [sizes[name] for name in shape.split(", ")])
        runs.append({**projected(batch, length, seed), "m": mask.astype(np.int32)})
    check.like_onnxruntime(model, *runs)


def test_attention_continues_from_the_past(check: Check) -> None:
    model = """(float[n, t, 6] x, float[6, 24] w, float[24] b, float[2, n, 2, p, 4] past, float[n, 2, t, t] bias)
        => (float[n, t, 8] y, float[2, n, 2, s, 4] present, float[n, t, 8] z) {
        y, present = com.microsoft.Attention <num_heads = 2, unidirectional = 1> (x, w, b, , past)
        z = com.microsoft.Attention <num_heads = 2> (x, w, b, , , bias)
    }"""
    runs = [
        {**projected(n, t), "past": numbers(2, n, 2, p, 4, seed=3), "bias": numbers(n, 2, t, t, seed=4)}
        for (n, t), p in zip(SIZES, (3, 1, 4), strict=True)
    ]
    check.like_onnxruntime(model, *runs)


def test_attention_with_values_of_another_width(check: Check) -> None:
    model = """(float[n, t, 6] x, float[6, 20] w, float[20] b) => (float[n, t, 4] y) {
        y = com.microsoft.Attention <num_heads = 2, qkv_hidden_sizes = [8, 8, 4]> (x, w, b)
    }"""
    runs = [{"x": numbers(n, t, 6), "w": numbers(6, 20) / 8, "b": numbers(20)} for n, t in SIZES]
    check.like_onnxruntime(model, *runs)


def test_multi_head_attention(check: Check) -> None:
    model = """(float[n, t, 8] q, float[n, s, 8] k, float[n, s, 6] v, float[22] b, int32[n, s] m, float[1, 2, t, s] a)
        => (float[n, t, 6] y0, float[n, t, 6] y1, float[n, t, 6] y2) {
        y0 = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v)
        y1 = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.2> (q, k, v, b, m)
        y2 = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , , a)
    }"""
    runs = [
        {
            "q": numbers(n, t, 8),
            "k": numbers(n, s, 8, seed=1),
            "v": numbers(n, s, 6, seed=2),
            "b": numbers(22, seed=3),
            "m": np.random.default_rng(n).integers(0, 2, (n, s)).astype(np.int32),
            "a": numbers(1, 2, t, s, seed=4),
        }
        for (n, t), s in zip(SIZES, (3, 1, 6), strict=True)
    ]
    check.like_onnxruntime(model, *runs)


def test_multi_head_attention_with_a_past(check: Check) -> None:
    model = """(float[n, t, 8] q, float[n, t, 8] k, float[n, t, 8] v, float[24] b, float[n, 2, p, 4] pk,
        float[n, 2, p, 4] pv, float[n, 2, s, 4] ck, float[n, 2, s, 4] cv)
        => (float[n, t, 8] y, float[n, 2, r, 4] nk, float[n, 2, r, 4] nv, float[n, t, 8] z) {
        y, nk, nv = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = 1> (q, k, v, b, , , pk, pv)
        z = com.microsoft.MultiHeadAttention <num_heads = 2> (q, ck, cv, b)
    }"""
    runs = [
        {
            **{name: numbers(n, t, 8, seed=i) for i, name in enumerate("qkv")},
            "b": numbers(24, seed=3),
            **{name: numbers(n, 2, p, 4, seed=4) for name in ("pk", "pv")},
            **{name: numbers(n, 2, p + 2, 4, seed=5) for name in ("ck", "cv")},
        }
        for (n, t), p in zip(SIZES, (3, 1, 6), strict=True)
    ]
    check.like_onnxruntime(model, *runs)
