"""RotaryEmbedding and GroupQueryAttention of ONNX Runtime, against ONNX Runtime."""

import numpy as np
import pytest

from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers, parse

HEADS, SHARED, SIZE = 4, 2, 16


def angles(positions: int, pairs: int) -> dict[str, np.ndarray]:
    turns = np.arange(positions)[:, None] / 10.0 ** (np.arange(pairs) / pairs)
    return {"cos": np.cos(turns).astype(np.float32), "sin": np.sin(turns).astype(np.float32)}


def test_rotary_embedding(check: Check) -> None:
    model = """(float[n, t, 32] x, float[n, 2, t, 16] h, int64[n, t] p, int64[1] f, float[m, 8] cos, float[m, 8] sin,
        float[m, 4] cos4, float[m, 4] sin4) => (float[n, t, 32] y0, float[n, 2, t, 16] y1, float[n, t, 32] y2) {
        y0 = com.microsoft.RotaryEmbedding(x, p, cos, sin)
        y1 = com.microsoft.RotaryEmbedding <interleaved = 1> (h, f, cos, sin)
        y2 = com.microsoft.RotaryEmbedding <num_heads = 2, rotary_embedding_dim = 8> (x, f, cos4, sin4)
    }"""
    runs = []
    for n, t in ((1, 1), (2, 3), (3, 5)):
        some = angles(12, 4)
        runs.append(
            {
                "x": numbers(n, t, 32),
                "h": numbers(n, 2, t, 16),
                "p": np.random.default_rng(n).integers(0, 12, (n, t)),
                "f": np.array([n]),
                **angles(12, 8),
                "cos4": some["cos"],
                "sin4": some["sin"],
            }
        )
    check.like_onnxruntime(model, *runs)


def step(batch: int, rows: int, past: int, lengths: list[int], seed: int = 0) -> dict[str, np.ndarray]:
    """The operands of one run; `lengths` are the last positions of the rows."""
    return {
        "q": numbers(batch, rows, HEADS * SIZE, seed=seed) / 4,
        "k": numbers(batch, rows, SHARED * SIZE, seed=seed + 1) / 4,
        "v": numbers(batch, rows, SHARED * SIZE, seed=seed + 2),
        "pk": numbers(batch, SHARED, past, SIZE, seed=seed + 3) / 4,
        "pv": numbers(batch, SHARED, past, SIZE, seed=seed + 4),
        "l": np.array(lengths, np.int32),
        "total": np.array(max(lengths) + 1, np.int32),
    }


INPUTS = """float[n, t, 64] q, float[n, t, 32] k, float[n, t, 32] v, float[n, 2, p, 16] pk, float[n, 2, p, 16] pv,
    int32[n] l, int32 total"""
ALIKE = [step(1, 3, 4, [6]), step(2, 1, 5, [5, 5], 1), step(1, 2, 1, [2], 2)]
"""Runs whose rows are equally long, so that ONNX Runtime sets every entry of the cache."""

VARIANTS = ["", ", scale = 0.2, softcap = 5.0", ", local_window_size = 2", ", smooth_softmax = 1"]


def test_grouped_queries_share_keys(check: Check) -> None:
    calls = [f"GroupQueryAttention <num_heads = 4, kv_num_heads = 2 {v}> (q, k, v, pk, pv, l, total)" for v in VARIANTS]
    outputs = ", ".join(f"float[n, t, 64] y{i}, float[n, 2, r, 16] k{i}, float[n, 2, r, 16] v{i}" for i in range(4))
    nodes = "".join(f"y{i}, k{i}, v{i} = com.microsoft.{call}" for i, call in enumerate(calls))
    check.like_onnxruntime(f"({INPUTS}) => ({outputs}) {{ {nodes} }}", *ALIKE)


def test_grouped_queries_are_turned_and_packed(check: Check) -> None:
    model = f"""({INPUTS}, float[m, 8] cos, float[m, 8] sin, int64[n, t] at, float[n, 1, t, s] a, float[4] sink)
        => (float[n, t, 64] y0, float[n, 2, r, 16] k0, float[n, 2, r, 16] v0, float[n, t, 64] y1, float[n, 2, r, 16] k1,
        float[n, 2, r, 16] v1) {{
        all = Concat <axis = 2> (q, k, v)
        y0, k0, v0 = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
            (all, , , pk, pv, l, total, cos, sin, at, a)
        y1, k1, v1 = com.microsoft.GroupQueryAttention
            <num_heads = 4, kv_num_heads = 2, do_rotary = 1, rotary_interleaved = 1>
            (q, k, v, pk, pv, l, total, cos, sin, , , sink)
    }}"""
    runs = []
    for run in ALIKE:
        batch, rows = run["q"].shape[:2]
        total = int(run["total"])
        runs.append(
            {
                **run,
                **angles(12, 8),
                "at": np.tile(np.arange(total - rows, total), (batch, 1)),
                "a": numbers(batch, 1, rows, total, seed=7),
                "sink": numbers(4, seed=8),
            }
        )
    check.like_onnxruntime(model, *runs)


def test_rows_of_a_batch_differ_in_length(check: Check) -> None:
    model = f"""({INPUTS}, float[m, 8] cos, float[m, 8] sin) => (float[n, t, 64] y) {{
        y, _k, _v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
            (q, k, v, pk, pv, l, total, cos, sin)
    }}"""
    runs = [step(3, 1, 6, [6, 2, 4]), step(2, 1, 3, [1, 3], 1)]
    check.like_onnxruntime(model, *({**run, **angles(12, 8)} for run in runs))


@pytest.mark.parametrize("past", [0, 3, 8])
def test_a_prompt_starts_at_position_0(check: Check, past: int) -> None:
    """A cache may have room beforehand, as those have that the past and the present share."""
    model = f"""({INPUTS}) => (float[n, t, 64] y, float[n, 2, r, 16] nk) {{
        y, nk, _v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, k, v, pk, pv, l, total)
    }}"""
    run = step(2, 3, past, [2, 2])
    got = by_onnxruntime(model, run, opset=17)[0]
    kept = np.concatenate([got[1][:, :, :3], run["pk"][:, :, 3:]], axis=2)
    with check.session(parse(model, 17), run) as session:
        y, keys = session.run(run).values()
    np.testing.assert_allclose(y, got[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(keys, kept)
