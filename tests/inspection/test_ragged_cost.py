"""The costs of kernels that run once for each instance of a ragged batch, as formulas over sums of lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.artifact.formula import evaluate
from deploykit.artifact.manifest import read_manifest
from deploykit.artifact.plan import read_plan
from deploykit.checks.lengths import sizes_in_costs
from deploykit.checks.profiling import profile
from tests.frontends.onnx.harness import parse

ATTENTION = """
    (float[batch, seq, 4] x, float[batch, seq] mask) => (float[batch, seq, 4] y)
    <int64[1] middle = {1}, float one = {1}, float least = {-1e9}> {
        absent = Sub(one, mask)  low = Mul(absent, least)  added = Unsqueeze(low, middle)
        turned = Transpose<perm = [0, 2, 1]>(x)  scores = MatMul(x, turned)
        masked = Add(scores, added)  weights = Softmax<axis = -1>(masked)  y = MatMul(weights, x)
    }
"""
SCORES = """
    (float[batch, seq, 4] x, float[squares] other, float[batch, seq] mask)
    => (float[batch, seq, seq] scores, float[squares] same) {
        turned = Transpose<perm = [0, 2, 1]>(x)  scores = MatMul(x, turned)  same = Relu(other)
    }
"""
LENGTHS = np.array([12, 0, 80, 7])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ragged") / "dist"
    deploykit.build(parse(ATTENTION), ragged={"seq": "batch"}, output=folder)
    return folder


def test_attention_costs_two_products_and_a_softmax_for_each_pair_of_tokens(folder: Path) -> None:
    plan = read_plan(folder)
    assert all(entry.flops is not None and entry.traffic is not None for entry in plan.work)
    attention = plan.work[-1]
    assert attention.flops == "20*squares + 5*tokens"
    # It reads x no more often than its size, and writes y.
    sizes = {"batch": 4, "tokens": 1000, "squares": 10**6}
    assert evaluate(attention.traffic or "", sizes) == 2 * 16 * 1000 + 8 * 5 + 8 * 4


def test_a_batch_costs_what_its_instances_cost_alone(folder: Path) -> None:
    plan, manifest = read_plan(folder), read_manifest(folder)

    def operations(lengths: np.ndarray) -> int:
        sizes = {"batch": lengths.size, "tokens": int(lengths.sum())}
        known = sizes_in_costs(manifest, {"lengths": lengths}, sizes)
        return sum(evaluate(entry.flops or "", known) for entry in plan.work)

    assert operations(LENGTHS) == sum(operations(length[None]) for length in LENGTHS)


def test_a_profile_says_how_fast_each_instance_is_computed(folder: Path) -> None:
    tokens = int(LENGTHS.sum())
    inputs = {"x": np.ones((tokens, 4), np.float32), "lengths": LENGTHS}
    found = profile(folder, inputs, {"batch": LENGTHS.size, "tokens": tokens}, seconds=0)
    assert found.steps[-1].flops == 20 * int((LENGTHS**2).sum()) + 5 * tokens
    assert all(step.flops is not None and step.traffic is not None for step in found.steps)


def test_another_dim_may_be_called_squares(tmp_path: Path) -> None:
    deploykit.build(parse(SCORES), ragged={"seq": "batch"}, output=tmp_path / "dist")
    assert {entry.squares for entry in read_manifest(tmp_path / "dist").padded} == {"squares_seq"}
    plan = read_plan(tmp_path / "dist")
    (product,) = (entry for entry in plan.work if entry.result.startswith("scores"))
    assert product.flops == "8*squares_seq"
    # It reads x and its copy `turned`, and for each instance its number, where it begins, and where its scores begin.
    sizes = {"batch": 1, "tokens": 10, "squares_seq": 100}
    assert evaluate(product.traffic or "", sizes) == 4 * (40 + 40 + 100) + 8 + 16 + 8
