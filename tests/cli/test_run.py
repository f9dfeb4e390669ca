"""`deploykit run`, `verify` and `bench` on an artifact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from deploykit import build


def test_a_run_writes_its_outputs(deploykit, model: Path, artifact: Path, tmp_path: Path) -> None:
    import onnxruntime

    x = np.random.default_rng(1).standard_normal((5, 8), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    result = deploykit("run", artifact, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz", "--json")
    assert result.code == 0, result.err
    assert result.document["sizes"] == {"batch": 5}
    assert result.document["outputs"][0]["shape"] == [5, 4]
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], expected, rtol=1e-5, atol=1e-6)


def test_random_inputs_repeat_and_take_sizes(deploykit, artifact: Path) -> None:
    call = ("run", artifact, "--input", "x=random:3", "--at", "batch=7", "--json")
    first, second = deploykit(*call), deploykit(*call)
    assert first.document["outputs"][0]["shape"] == [7, 4]
    assert first.out == second.out


def test_a_run_describes_its_outputs(deploykit, artifact: Path) -> None:
    result = deploykit("run", artifact, "--input", "x=random:3")
    assert "float32" in result.out
    assert "[1, 4]" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "input 'x' has no values"),
        (["--input", "z=random:1"], "no input 'z'"),
        (["--input", "x=random:1", "--at", "batch=17"], "1..16, found 17"),
        (["--input", "x=random:1", "--at", "rows=1"], "no symbolic dim 'rows'"),
        (["--input", "x=random:1", "--at", "batch=1,2"], "one size"),
        (["--input", "x=random"], "random:SEED"),
        (["--input", "x=nowhere.npy"], "nowhere.npy"),
        (["--input", "x=random:1", "--output", "y.txt"], ".npz"),
        (["--input", "x=random:1", "--output", "no/such/folder/y.npz"], "no/such/folder"),
    ],
)
def test_wrong_inputs_are_exit_code_2(deploykit, artifact: Path, arguments: list[str], message: str) -> None:
    result = deploykit("run", artifact, *arguments)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_dim_is_called_what_the_model_calls_it(deploykit, tmp_path: Path) -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["past-keys + 1"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "names", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, ir_version=9), tmp_path / "names.onnx")
    described = deploykit("inspect", tmp_path / "names.onnx", "--json").document
    assert described["inputs"][0]["shape"] == [described["dims"][0]["name"]] == ["past-keys + 1"]
    build(tmp_path / "names.onnx", "host", {}, tmp_path / "names")
    call = ("run", tmp_path / "names", "--input", "x=random:1", "--at", "past-keys + 1=3", "--json")
    assert deploykit(*call).document["sizes"] == {"past-keys + 1": 3}


def test_inputs_of_another_dtype_or_rank_are_exit_code_2(deploykit, artifact: Path, tmp_path: Path) -> None:
    for array in (np.zeros((1, 8), np.float64), np.zeros(8, np.float32), np.zeros((1, 9), np.float32)):
        np.save(tmp_path / "x.npy", array)
        result = deploykit("run", artifact, "--input", f"x={tmp_path / 'x.npy'}")
        assert result.code == 2
        assert "'x'" in result.err


def test_verify_agrees_at_several_sizes(deploykit, model: Path, artifact: Path) -> None:
    result = deploykit("verify", artifact, "--model", model, "--json")
    assert result.code == 0, result.err
    assert [check["sizes"]["batch"] for check in result.document["checks"]] == [1, 7, 16]
    assert all(output["within"] for check in result.document["checks"] for output in check["outputs"])


def test_verify_takes_sizes_and_another_reference(deploykit, model: Path, artifact: Path) -> None:
    result = deploykit("verify", artifact, "-m", model, "--at", "batch=2,3", "--reference", "onnx")
    assert result.code == 0, result.err
    assert "batch=2" in result.out
    assert "batch=3" in result.out
    assert "against onnx" in result.out


def test_a_mismatch_is_exit_code_1(deploykit, artifact: Path, other_model: Path) -> None:
    result = deploykit("verify", artifact, "--model", other_model)
    assert result.code == 1
    assert "output 'y' at batch=1" in result.err
    assert "out of tolerance" in result.out


def test_sizes_that_the_artifact_refuses_are_exit_code_2(deploykit, model: Path, artifact: Path) -> None:
    result = deploykit("verify", artifact, "--model", model, "--at", "batch=17")
    assert result.code == 2
    assert "1..16, found 17" in result.err


def test_bench_prints_both_sides_and_the_ratio(deploykit, model: Path, artifact: Path) -> None:
    call = ("bench", artifact, "--seconds", "0.05", "--at", "batch=4")
    result = deploykit(*call, "--against", "onnxruntime", "--model", model, "--json")
    assert result.code == 0, result.err
    ours, peer = result.document["timings"]
    assert result.document["ratio"] == pytest.approx(ours["median"] / peer["median"])
    assert min(ours["runs"], peer["runs"]) >= 5
    assert ours["fastest"] <= ours["median"] <= ours["p90"]
    assert "deploykit" in deploykit(*call).out


def test_bench_profiles(deploykit, artifact: Path, tmp_path: Path) -> None:
    call = ("bench", artifact, "--seconds", "0.05", "--at", "batch=4", "--profile")
    found = deploykit(*call, "--json").document["profile"]
    (kernel,), (step,) = found["kernels"], found["steps"]
    # Operations per row: 8 products and sums for each of 4 columns, the bias, and Relu. Traffic: 8 + 4 floats per row,
    # and at least the weights.
    assert kernel["flops"] == step["flops"] == 4 * (2 * 8 * 4 + 4 + 4)
    assert kernel["traffic"] == step["traffic"] >= 4 * (4 * 12 + 8 * 4 + 4)
    assert kernel["share"] == 1
    assert step["result"].endswith("float32[batch, 4]")
    picture = tmp_path / "flame.svg"
    result = deploykit(*call, "--picture", picture)
    assert result.code == 0, result.err
    assert kernel["name"] in result.out
    assert "GFLOP/s" in result.out
    assert "one run" in picture.read_text()
    assert deploykit(*call[:-1], "--picture", picture).code == 2
    assert deploykit(*call, "--picture", tmp_path / "flame.txt").code == 2


def test_the_model_is_found_beside_the_artifact(deploykit, model: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / model.name
    copy.write_bytes(model.read_bytes())
    assert deploykit("build", copy, "-o", "elsewhere/dist", "--dim", "batch=2").code == 0
    assert deploykit("verify", "elsewhere/dist").code == 0
    assert deploykit("bench", "elsewhere/dist", "--against", "onnxruntime", "--seconds", "0").code == 0
    copy.write_bytes(model.read_bytes() + b"\n")
    result = deploykit("verify", "elsewhere/dist")
    assert result.code == 2
    assert "--model" in result.err


@pytest.mark.parametrize("verb", [("run",), ("bench",), ("verify", "--model", "model.onnx")])
def test_a_folder_that_is_not_an_artifact_is_exit_code_2(deploykit, tmp_path: Path, verb: tuple[str, ...]) -> None:
    result = deploykit(verb[0], tmp_path, *verb[1:])
    assert result.code == 2
    assert result.err.startswith("error:")


def test_a_damaged_artifact_is_exit_code_2(deploykit, model: Path, tmp_path: Path) -> None:
    assert deploykit("build", model, "-o", tmp_path / "dist", "--dim", "batch=1").code == 0
    (tmp_path / "dist" / "weights.bin").write_bytes(b"")
    result = deploykit("run", tmp_path / "dist", "--input", "x=random:0")
    assert result.code == 2
    assert "weights.bin" in result.err
