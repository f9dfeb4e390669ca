"""`deploykit build --explain`: which passes and rules applied, and why the others did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from bench.models.cnn import cnn as cnn_model
from tests.frontends.onnx.harness import parse


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "cnn.onnx"
    onnx.save(cnn_model(), path)
    return path


def saved(text: str, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(parse(text), path)
    return path


def rules(variant: dict[str, Any]) -> dict[str, list[str]]:
    """The rules that took the stages of each kernel."""
    return {kernel["name"]: [stage["rule"] for stage in kernel["stages"]] for kernel in variant["kernels"]}


def steps(variant: dict[str, Any], name: str) -> dict[str, dict[str, str]]:
    """The decisions of a pass, by subject."""
    return {step["subject"]: step for step in variant["graph"] if step["pass"] == name}


def test_rules_and_passes_of_a_conv_net(deploykit, cnn: Path) -> None:
    result = deploykit("build", cnn, "--cpu", "x86-64-v3", "--explain", "--stop-after", "kernels", "--json")
    assert result.code == 0, result.err
    (variant,) = result.document["explain"]
    assert variant["variant"] == "x86-64-v3"
    found = rules(variant)
    assert found["fused_conv_bias2_relu2"] == ["conv"]
    assert found["fused_conv1_bias11_relu11"] == ["winograd"]
    assert found["fused_matmul_gemm"] == ["matmul"]
    declined = next(k["stages"][0]["declined"] for k in variant["kernels"] if k["name"] == "fused_conv1_bias11_relu11")
    assert declined == dict.fromkeys(("matmul", "conv"), "it is a convolution in transformed tiles")
    transformed = steps(variant, "winograd")
    assert transformed["conv_3"]["done"] == "a convolution in transformed tiles"
    assert transformed["conv_0"]["declined"] == "its channels are not at least 16, in whole vectors of 8"
    assert "declined" in steps(variant, "join_matmuls")["gemm_7"]
    assert steps(variant, "fusion")["fused_matmul_gemm"]["done"] == "one kernel of matmul, gemm"


def test_a_table_for_each_variant(deploykit, cnn: Path) -> None:
    """Below the tables, the kernels on the GPU that no rule took are listed."""
    result = deploykit("build", cnn, "--target", "webgpu", "--explain", "--stop-after", "kernels")
    assert result.code == 0, result.err
    for words in ("wasm-simd128: passes over the graph", "wasm-simd128: kernels", "webgpu: kernels", "join_matmuls"):
        assert words in result.out
    assert "elements (fallback)" in result.out
    assert "slow: no rule took 2 of 6 kernels: channels_first3, fused_matmul_gemm" in result.out
    assert "not tile: its last axis is no whole number of vectors of 4" in " ".join(result.out.split())


def test_why_a_kernel_stays_on_the_cpu(deploykit, tmp_path: Path) -> None:
    model = saved("(double[n] x) => (double[n] y) { y = Sqrt(x) }", tmp_path)
    call = ("build", model, "--target", "webgpu", "--explain", "--stop-after", "kernels")
    _, shaders = deploykit(*call, "--json").document["explain"]
    (kernel,) = shaders["kernels"]
    assert (kernel["runs_on"], kernel["not_on_gpu"]) == ("cpu", "it has tensors of float64")
    assert "CPU: it has tensors of float64" in deploykit(*call).out


def test_loops_that_are_kept_in_their_order(deploykit, tmp_path: Path) -> None:
    model = saved("(float[n] x) => (float[n] y) { zero = Constant<value_int=0>() y = CumSum(x, zero) }", tmp_path)
    call = ("build", model, "--explain", "--stop-after", "kernels")
    ((kernel,),) = [variant["kernels"] for variant in deploykit(*call, "--json").document["explain"]]
    (stage,) = kernel["stages"]
    assert (stage["rule"], stage["one_by_one"]) == ("imperative", True)
    assert stage["declined"] == {"by stages": "it is one imperative block"}
    assert "one by one" in deploykit(*call).out


def test_with_the_artifact(deploykit, model: Path, tmp_path: Path) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", "--explain", "--json")
    assert result.code == 0, result.err
    assert set(result.document) == {"output", "manifest", "explain"}
    assert "explain" not in deploykit("build", model, "-o", tmp_path / "dist", "--json").document


def test_without_fusion(deploykit, model: Path) -> None:
    result = deploykit("build", model, "--no-fuse", "--explain", "--stop-after", "kernels", "--json")
    (variant,) = result.document["explain"]
    assert steps(variant, "fusion") == {
        "all operators": {"pass": "fusion", "subject": "all operators", "declined": "it is not asked for"}
    }
    assert len(variant["kernels"]) == 3


def test_passes_alone_after_the_graph(deploykit, model: Path, tmp_path: Path) -> None:
    result = deploykit(
        "build", model, "--explain", "--stop-after", "graph", "--dump-dir", tmp_path, "--json", "--cpu", "x86-64-v3"
    )
    (variant,) = result.document["explain"]
    assert variant["graph"]
    assert not variant["kernels"]
    assert "join_matmuls: product" in (tmp_path / "x86-64-v3" / "1_graph.decisions.txt").read_text()


def test_dumps_have_the_reasons(deploykit, model: Path, tmp_path: Path) -> None:
    deploykit("build", model, "--stop-after", "kernels", "--dump-dir", tmp_path, "--cpu", "x86-64-v3")
    text = (tmp_path / "x86-64-v3" / "2_kernels.decisions.txt").read_text()
    assert "fusion: fused_matmul_add_relu: one kernel of matmul, add, relu" in text
    assert "fused_matmul_add_relu on the CPU\n    relu: matmul" in text
