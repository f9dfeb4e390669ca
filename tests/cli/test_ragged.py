"""`deploykit run`, `verify` and `bench` on an artifact with ragged inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit as package
from tests.frontends.onnx.harness import parse
from tests.ragged import POOLED, matrix_model, pooled_model


@pytest.fixture(scope="module")
def ragged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ragged")
    onnx.save(parse(POOLED), folder / "model.onnx")
    package.build(pooled_model(), output=folder / "dist")
    return folder / "dist"


def test_lengths_are_given(deploykit, ragged: Path) -> None:
    result = deploykit("run", ragged, "--input", "x=random:0", "--lengths", "12,0,7", "--json")
    assert result.code == 0, result.err
    assert result.document["sizes"] == {"batch": 3, "tokens": 19, "seq": 12}
    y, pooled = result.document["outputs"]
    assert (y["shape"], y["lengths"]) == ([19, 4], [12, 0, 7])
    assert (pooled["shape"], "lengths" in pooled) == ([3, 4], False)
    shown = deploykit("run", ragged, "--input", "x=random:0", "--lengths", "12,0,7")
    assert "12, 0, 7" in shown.out
    assert "batch=3, seq=12, tokens=19" in shown.err or "batch=3, tokens=19, seq=12" in shown.err


def test_lengths_follow_from_sizes(deploykit, ragged: Path) -> None:
    sizes = deploykit("run", ragged, "-i", "x=random:0", "--at", "batch=3,seq=9", "--json").document["sizes"]
    assert (sizes["batch"], sizes["seq"]) == (3, 9)
    y = deploykit("run", ragged, "-i", "x=random:0", "--at", "batch=3,tokens=20", "--json").document["outputs"][0]
    assert sum(y["lengths"]) == 20


def test_outputs_are_written_and_read(deploykit, ragged: Path, tmp_path: Path) -> None:
    x = package.Ragged.of([np.ones((2, 4), np.float32), np.full((3, 4), -1, np.float32)])
    np.savez(tmp_path / "x.npz", x=x.values, x_lengths=x.lengths)
    result = deploykit("run", ragged, "-i", f"x={tmp_path}/x.npz", "-o", tmp_path / "y.npz")
    assert result.code == 0, result.err
    with np.load(tmp_path / "y.npz") as found:
        assert found.files == ["y", "y_lengths", "pooled"]
        y = package.Ragged(found["y"], found["y_lengths"])
    assert [each.tolist() for each in y] == [[[2] * 4] * 2, [[0] * 4] * 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lengths", "1,2"], "input 'x' has no values"),
        (["-i", "x=random:0", "--lengths", "1,b"], "write LENGTH,LENGTH"),
        (["-i", "x=random:0", "--lengths", "m=1"], "its inputs with lengths are lengths"),
        (["-i", "x=random:0", "-i", "lengths=random:0", "--lengths", "1"], "by --input and by --lengths"),
        (["-i", "x=random:0", "--lengths", "1,2", "--at", "seq=9"], "with these lengths 'seq' is 2, not 9"),
    ],
)
def test_wrong_lengths_are_exit_code_2(deploykit, ragged: Path, arguments: list[str], message: str) -> None:
    result = deploykit("run", ragged, *arguments)
    assert (result.code, message in result.err) == (2, True), result.err


def test_a_dense_model_has_no_lengths(deploykit, artifact: Path) -> None:
    result = deploykit("run", artifact, "-i", "x=random:0", "--lengths", "1,2")
    assert (result.code, "the model has no ragged inputs" in result.err) == (2, True)


def test_several_inputs_with_lengths_are_named(deploykit, tmp_path: Path) -> None:
    package.build(matrix_model(), output=tmp_path / "dist")
    call = ("run", tmp_path / "dist", "-i", "a=random:0", "--lengths", "m=2,3", "--lengths", "k=1,4", "--json")
    assert deploykit(*call).document["outputs"][0]["lengths"] == [[2, 1], [3, 4]]


def test_verify_and_bench_take_lengths(deploykit, ragged: Path) -> None:
    model = ragged.parent / "model.onnx"
    result = deploykit("verify", ragged, "--model", model, "--lengths", "5,1,0", "--json")
    assert result.code == 0, result.err
    assert [check["sizes"] for check in result.document["checks"]] == [{"batch": 3, "tokens": 6, "seq": 5}]
    result = deploykit("bench", ragged, "--against", "onnxruntime", "--model", model, "--lengths", "5,1,0",
                       "--seconds", "0.2", "--json")  # fmt: skip
    assert result.code == 0, result.err
    assert result.document["sizes"] == {"batch": 3, "tokens": 6, "seq": 5}


def test_inspect_shows_ragged_ports_and_lengths(deploykit, ragged: Path, tmp_path: Path) -> None:
    result = deploykit("inspect", ragged, "--lengths", "12,0,20", "--plan-picture", tmp_path / "plan.png")
    assert result.code == 0, result.err
    assert "[lengths, 4] each, in [tokens, 4]" in result.out
    assert "Lengths lengths: 3 instances, 32 in total, 60 if padded to the longest, 20" in result.out
    assert "of arena at batch=3, tokens=32" in result.out or "of arena at tokens=32, batch=3" in result.out
    assert "% of the arithmetic would be wasted if all were padded to the longest: 12,009 instead of" in result.out
    assert (tmp_path / "plan.png").stat().st_size > 1000
    document = deploykit("inspect", ragged, "--lengths", "12,0,20", "--json").document["lengths"]
    assert document["lengths"] == {"lengths": [12, 0, 20]}
    assert 0 < document["wasted"] < 1
    assert "lengths" not in deploykit("inspect", ragged, "--json").document


def test_inspect_refuses_lengths_of_a_model_and_of_a_dense_artifact(deploykit, artifact: Path, model: Path) -> None:
    result = deploykit("inspect", artifact, "--lengths", "1,2")
    assert (result.code, "the model has no ragged inputs" in result.err) == (2, True)
    result = deploykit("inspect", model, "--lengths", "1,2")
    assert (result.code, "go with an artifact folder" in result.err) == (2, True)
