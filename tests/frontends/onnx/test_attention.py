"""Attention and rotary embedding over symbolic batch, heads and lengths against the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from tests.frontends.onnx.harness import Check, numbers, parse

SIZES = [(1, 1, 1), (2, 5, 7), (1, 7, 3)]
"""Batch size, number of queries, number of keys."""


def feeds(batch: int, queries: int, keys: int, kv_heads: int = 4, size: int = 8) -> dict[str, np.ndarray]:
    return {
        "q": numbers(batch, 4, queries, size, seed=1) / 4,
        "k": numbers(batch, kv_heads, keys, size, seed=2) / 4,
        "v": numbers(batch, kv_heads, keys, 6, seed=3),
    }


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_grouped_heads(check: Check, kv_heads: int) -> None:
    text = f"""(float[b,4,s,8] q, float[b,{kv_heads},t,8] k, float[b,{kv_heads},t,d] v) => (
        float[b,4,s,d] y, float[b,4,s,d] z) {{
        y = Attention(q, k, v)  z = Attention<is_causal = 1, softcap = 2.0, scale = 0.3>(q, k, v) }}"""
    check(text, *(feeds(*size, kv_heads) for size in SIZES), opset=24, rtol=1e-4)


def test_all_dims_may_be_symbolic(check: Check) -> None:
    text = "(float[b,h,s,d] q, float[b,g,t,d] k, float[b,g,t,e] v) => (float[b,h,s,e] y) { y = Attention(q, k, v) }"
    check(text, *(feeds(*SIZES[1], heads, size) for heads, size in ((4, 8), (2, 5), (1, 1))), opset=24, rtol=1e-4)


def test_masks(check: Check) -> None:
    """Masks are float or boolean, of any rank, and may be shorter than the keys."""
    text = """(float[b,4,s,8] q, float[b,4,t,8] k, float[b,4,t,6] v, float[s,t] f, bool[s,u] m, bool[b,1,s,t] n)
        => (float[b,4,s,6] y0, float[b,4,s,6] y1, float[b,4,s,6] y2) {
        y0 = Attention(q, k, v, f)  y1 = Attention<is_causal = 1>(q, k, v, m)  y2 = Attention(q, k, v, n) }"""
    runs = []
    for batch, queries, keys in SIZES:
        masks = {
            "f": numbers(queries, keys),
            "m": numbers(queries, max(1, keys - 1)) > 0,
            "n": numbers(batch, 1, queries, keys) > 0,
        }
        runs.append({**feeds(batch, queries, keys), **masks})
    check(text, *runs, opset=24, rtol=1e-4)


def test_masks_of_integers(check: Check) -> None:
    """They are added like floats, so that 0 closes no key, nor does the lowest number of their dtype."""
    head = "(float[b,4,s,8] q, float[b,4,t,8] k, float[b,4,t,6] v, {}[s,t] m, {}[s,u] n)"
    text = (
        head
        + """ => (float[b,4,s,6] y0, float[b,4,s,6] y1) {{
        y0 = Attention(q, k, v, m)  y1 = Attention<is_causal = 1>(q, k, v, n) }}"""
    )
    floats = parse(text.format("float", "float"), 24)
    runs = []
    for batch, queries, keys in SIZES:
        masks = (np.abs(numbers(queries, keys) * 2), numbers(queries, max(1, keys - 1)) * 2)
        runs.append({**feeds(batch, queries, keys), "m": masks[0].astype(np.uint16), "n": masks[1].astype(np.int8)})
        runs[-1]["n"][0, 0] = -128
    same = [{name: np.float32(value) for name, value in run.items()} for run in runs]
    expected = [ReferenceEvaluator(floats).run(None, run) for run in same]
    check(text.format("uint16", "int8"), *runs, opset=24, expected=expected, rtol=1e-4)


def test_a_mask_that_does_not_fit_is_refused(check: Check) -> None:
    """The mask's own dim may be 1 or the number of queries."""
    text = """(float[1,2,s,8] q, float[1,2,6,8] k, float[1,2,6,8] v, float[n,6] f) => (float[1,2,s,8] y) {
        y = Attention(q, k, v, f) }"""
    model = parse(text, 24)
    given = {"q": numbers(1, 2, 3, 8), "k": numbers(1, 2, 6, 8), "v": numbers(1, 2, 6, 8)}
    with check.runtime.session(model, dims={"s": (1, 4), "n": (1, 4)}) as session:
        for rows in (1, 3):
            masked = {**given, "f": numbers(rows, 6)}
            (expected,) = ReferenceEvaluator(model).run(None, masked)
            np.testing.assert_allclose(session.run(masked)["y"], expected, rtol=1e-4, atol=1e-5)
        for rows in (2, 4):
            with pytest.raises(deploykit.UsageError, match=f"mask of {rows} rows does not broadcast to 3 queries"):
                session.run({**given, "f": numbers(rows, 6)})


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_past_and_products(check: Check, mode: int) -> None:
    softcap = 1.5 if mode else 0.0
    text = f"""(float[b,4,s,8] q, float[b,4,t,8] k, float[b,4,t,6] v, float[b,4,p,8] pk, float[b,4,p,6] pv)
        => (float[b,4,s,6] y, float[b,4,u,8] nk, float[b,4,u,6] nv, float[b,4,s,u] w) {{
        y, nk, nv, w = Attention<is_causal = 1, qk_matmul_output_mode = {mode}, softcap = {softcap}>(q,k,v,,pk,pv) }}"""
    runs = []
    for (batch, queries, keys), past in zip(SIZES, (4, 1, 6), strict=True):
        cache = {"pk": numbers(batch, 4, past, 8), "pv": numbers(batch, 4, past, 6)}
        runs.append({**feeds(batch, queries, keys), **cache})
    check(text, *runs, opset=24, rtol=1e-4)


def test_valid_lengths_and_windows(check: Check) -> None:
    text = """(float[b,4,s,8] q, float[b,4,t,8] k, float[b,4,t,6] v, int64[b] n)
        => (float[b,4,s,6] y, float[b,4,s,6] z) {
        y = Attention<is_causal = 1>(q, k, v, , , , n)
        z = Attention<left_window_size = 2, right_window_size = 1>(q, k, v, , , , n) }"""
    lengths = [np.array([5, 2]), np.array([3])]
    check(text, *({**feeds(len(n), 3, 7), "n": n} for n in lengths), opset=25, rtol=1e-4)


def test_three_dimensional_inputs(check: Check) -> None:
    text = """(float[b,s,32] q, float[b,t,16] k, float[b,t,12] v)
        => (float[b,s,24] y, float[b,2,t,8] nk, float[b,2,t,6] nv) {
        y, nk, nv = Attention<q_num_heads = 4, kv_num_heads = 2, is_causal = 1>(q, k, v) }"""
    runs = ({"q": numbers(b, s, 32) / 4, "k": numbers(b, t, 16) / 4, "v": numbers(b, t, 12)} for b, s, t in SIZES)
    check(text, *runs, opset=24, rtol=1e-4)


def test_a_query_whose_keys_are_all_masked_gets_zeros(check: Check) -> None:
    text = """(float[b,4,s,8] q, float[b,4,t,8] k, float[b,4,t,6] v, bool[s,t] m) => (float[b,4,s,6] y) {
        y = Attention(q, k, v, m) }"""
    inputs = feeds(1, 2, 3)
    inputs["k"][..., 0, :] = np.nan
    closed = {**inputs, "m": np.zeros((2, 3), np.bool_)}
    check(text, closed, opset=24, expected=[[np.zeros((1, 4, 2, 6), np.float32)]])


def test_heads_that_do_not_divide_are_refused() -> None:
    text = "(float[1,4,2,8] q, float[1,3,2,8] k, float[1,3,2,8] v) => (float[1,4,2,8] y) { y = Attention(q, k, v) }"
    with pytest.raises(deploykit.UnsupportedModelError, match="4 query heads cannot share 3 key heads"):
        deploykit.load(parse(text, 24))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 4])
def test_rotary_embedding(check: Check, interleaved: int, turned: int) -> None:
    half = (turned or 8) // 2
    options = f"interleaved = {interleaved}, rotary_embedding_dim = {turned}"
    text = f"""(float[b,h,s,8] x, float[b,s,16] f, float[m,{half}] c, float[m,{half}] d, int64[b,s] p,
        float[b,s,{half}] e, float[b,s,{half}] g) => (float[b,h,s,8] y0, float[b,s,16] y1, float[b,h,s,8] y2) {{
        y0 = RotaryEmbedding<{options}>(x, c, d, p)
        y1 = RotaryEmbedding<num_heads = 2, {options}>(f, c, d, p)
        y2 = RotaryEmbedding<{options}>(x, e, g) }}"""
    runs = [
        {
            "x": numbers(b, h, s, 8),
            "f": numbers(b, s, 16),
            "c": numbers(50, half, seed=1),
            "d": numbers(50, half, seed=2),
            "p": np.random.default_rng(b).integers(0, 50, (b, s)),
            "e": numbers(b, s, half, seed=3),
            "g": numbers(b, s, half, seed=4),
        }
        for b, h, s in ((2, 3, 5), (1, 1, 1))
    ]
    check(text, *runs, opset=23, rtol=1e-4)
