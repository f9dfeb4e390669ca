"""Operators need no file format: a transformer block built from them compiles to the same program as its ONNX model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import deploykit
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.compiler.observer import Observer
from deploykit.frontends.onnx import load_onnx
from deploykit.pipeline import compile_program
from deploykit.targets.base import find_target
from tests.frontends.block import UNBOUNDED, Weights, load_block
from tests.frontends.onnx.harness import numbers, parse

WIDTH, HIDDEN, HEADS = 24, 40, 3

MATRICES = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "out": (WIDTH, WIDTH)} | {
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}

TEXT = f"""(float[batch, seq, {WIDTH}] x) => (float[batch, seq, {WIDTH}] y) {{
    parts = Constant<value_ints = [0, 0, {HEADS}, -1]>()  whole = Constant<value_ints = [0, 0, -1]>()
    norm1 = LayerNormalization<axis = -1>(x, w_norm1_scale, w_norm1_shift)
    q = MatMul(norm1, w_q)  q_biased = Add(q, w_q_bias)
    q_parts = Reshape(q_biased, parts)  q_heads = Transpose<perm = [0, 2, 1, 3]>(q_parts)
    k = MatMul(norm1, w_k)  k_biased = Add(k, w_k_bias)
    k_parts = Reshape(k_biased, parts)  k_heads = Transpose<perm = [0, 2, 1, 3]>(k_parts)
    v = MatMul(norm1, w_v)  v_biased = Add(v, w_v_bias)
    v_parts = Reshape(v_biased, parts)  v_heads = Transpose<perm = [0, 2, 1, 3]>(v_parts)
    keys = Transpose<perm = [0, 1, 3, 2]>(k_heads)  dots = MatMul(q_heads, keys)
    factor = Constant<value_float = {(WIDTH // HEADS) ** -0.5}>()  scores = Mul(dots, factor)
    weights = Softmax<axis = -1>(scores)  values = MatMul(weights, v_heads)
    rows = Transpose<perm = [0, 2, 1, 3]>(values)  joined = Reshape(rows, whole)
    out = MatMul(joined, w_out)  out_biased = Add(out, w_out_bias)  x1 = Add(x, out_biased)
    norm2 = LayerNormalization<axis = -1>(x1, w_norm2_scale, w_norm2_shift)
    up = MatMul(norm2, w_up)  up_biased = Add(up, w_up_bias)  gelu = Gelu(up_biased)
    down = MatMul(gelu, w_down)  down_biased = Add(down, w_down_bias)  y = Add(x1, down_biased)
}}"""


@pytest.fixture(scope="module")
def weights() -> Weights:
    shapes: dict[str, tuple[int, ...]] = {**MATRICES, **{f"{name}_bias": shape[1:] for name, shape in MATRICES.items()}}
    shapes |= {f"norm{i}_{part}": (WIDTH,) for i in (1, 2) for part in ("scale", "shift")}
    return {name: numbers(*shape, seed=i) / 8 for i, (name, shape) in enumerate(shapes.items())}


@pytest.fixture(scope="module")
def model(weights: Weights) -> onnx.ModelProto:
    parsed = parse(TEXT)
    parsed.graph.initializer.extend(numpy_helper.from_array(array, f"w_{name}") for name, array in weights.items())
    return parsed


def compiled(imported: ImportedModel, target: str, folder: Path) -> dict[str, str]:
    """The text of each stage's result."""
    profile = find_target(target).variants("native")[0]
    compile_program(imported, profile, Observer(dump_dir=folder), capacities={})
    return {"import": imported.module.script()} | {path.stem: path.read_text() for path in sorted(folder.iterdir())}


def decided(stage: str) -> tuple[str, str]:
    return f"{stage}.decisions", stage


@pytest.mark.parametrize(
    ("target", "dims"),
    [("host", {}), ("host", {"seq": 16}), ("host", {"batch": 1, "seq": (1, 64)}), ("webgpu", {})],
)
def test_programs_equal_those_of_the_onnx_model(
    target: str, dims: DimBounds, weights: Weights, model: onnx.ModelProto, tmp_path: Path
) -> None:
    """The programs are equal down to every name, because both name values alike."""
    ours = compiled(load_block(weights, HEADS, {**UNBOUNDED, **dims}), target, tmp_path / "operators")
    theirs = compiled(load_onnx(model, dims, "block"), target, tmp_path / "onnx")
    assert list(ours) == list(theirs) == ["import", *decided("1_graph"), *decided("2_kernels"), "3_program"]
    for stage, text in ours.items():
        assert text == theirs[stage], stage


def expected(weights: Weights, x: np.ndarray) -> np.ndarray:
    """The results of the block in float64."""

    def norm(name: str, v: np.ndarray) -> np.ndarray:
        spread = np.sqrt(v.var(-1, keepdims=True) + 1e-5)
        return (v - v.mean(-1, keepdims=True)) / spread * weights[f"{name}_scale"] + weights[f"{name}_shift"]

    def linear(name: str, v: np.ndarray) -> np.ndarray:
        return v @ weights[name].astype(np.float64) + weights[f"{name}_bias"]

    def heads(v: np.ndarray) -> np.ndarray:
        return v.reshape(*v.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

    normed = norm("norm1", x.astype(np.float64))
    q, k, v = (heads(linear(name, normed)) for name in "qkv")
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    values = powers / powers.sum(-1, keepdims=True) @ v
    x = x + linear("out", values.transpose(0, 2, 1, 3).reshape(x.shape))
    hidden = linear("up", norm("norm2", x))
    return x + linear("down", hidden * (1 + np.vectorize(math.erf)(hidden * math.sqrt(0.5))) / 2)


@pytest.mark.slow
def test_results(weights: Weights, model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(load_block(weights, HEADS), output=tmp_path / "operators")
    deploykit.build(model, output=tmp_path / "onnx")
    ours, theirs = (deploykit.open(tmp_path / name) for name in ("operators", "onnx"))
    for batch, seq in ((1, 1), (2, 7), (1, 33), (5, 64)):
        x = numbers(batch, seq, WIDTH, seed=seq)
        got = ours.run({"x": x})["y"]
        np.testing.assert_allclose(got, expected(weights, x), rtol=1e-4, atol=1e-4, err_msg=f"{batch} of {seq}")
        np.testing.assert_array_equal(got, theirs.run({"x": x})["y"])
