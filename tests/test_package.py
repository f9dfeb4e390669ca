"""The names of `import deploykit`: functions that take paths, like the commands of the command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.errors import ShapeError, UsageError
from tests.frontends.onnx.harness import parse

MODEL = """
    (float[batch,4] x, int64[batch] ids) => (float[batch,4] y)
    <float[3,4] table = {0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}>
    { rows = Gather(table, ids)  y = Add(x, rows) }
"""
SEQUENCE = "(seq(float[batch,2]) xs) => (float[rows,2] y) { y = ConcatFromSequence<axis = 0>(xs) }"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(parse(MODEL), path)
    return path


@pytest.fixture(scope="module")
def artifact(model: Path) -> Path:
    deploykit.build(model, dims={"batch": (1, 16)}, output=model.parent / "dist")
    return model.parent / "dist"


def test_every_name_is_there() -> None:
    for name in deploykit.__all__:
        assert getattr(deploykit, name).__doc__


def test_the_package_itself_waits_for_nothing() -> None:
    code = "import sys, deploykit; sys.exit(not {'tvm', 'onnx', 'numpy', 'pydantic'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_verify_finds_the_model_beside_the_artifact(artifact: Path) -> None:
    report = deploykit.verify(artifact)
    assert report.within
    assert [check.sizes["batch"] for check in report.checks] == [1, 7, 16]


@pytest.mark.parametrize("at", [3, [3], (2, 3)])
def test_verify_runs_at_the_sizes_that_it_is_given(artifact: Path, model: Path, at: int | list[int]) -> None:
    report = deploykit.verify(str(artifact), str(model), at={"batch": at})
    assert report.checks[-1].sizes == {"batch": 3}
    assert report.within


def test_verify_finds_another_model_out(artifact: Path, tmp_path: Path) -> None:
    onnx.save(parse(MODEL.replace("0.5", "0.75")), tmp_path / "other.onnx")
    inputs = {"ids": [0, 1]}
    report = deploykit.verify(artifact, tmp_path / "other.onnx", inputs=inputs)
    assert report.wrong
    lenient = deploykit.Tolerance(rtol=0, atol=0.3)
    assert deploykit.verify(artifact, tmp_path / "other.onnx", inputs=inputs, tolerance=lenient).within
    with pytest.raises(deploykit.UsageError, match="say where it is"):
        deploykit.verify(shutil.copytree(artifact, tmp_path / "dist"))


def test_inputs_are_arrays_files_or_texts(artifact: Path, tmp_path: Path) -> None:
    x = np.ones((5, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    for given in (x, x.tolist(), tmp_path / "x.npy", str(tmp_path / "x.npy")):
        (check,) = deploykit.verify(artifact, inputs={"x": given, "ids": "random:0:0..2"}).checks
        assert (check.sizes, check.within) == ({"batch": 5}, True)
    with pytest.raises(deploykit.UsageError, match="there is no input 'z'"):
        deploykit.verify(artifact, inputs={"z": x})


def test_a_sequence_is_a_list_of_arrays(tmp_path: Path) -> None:
    onnx.save(parse(SEQUENCE), tmp_path / "model.onnx")
    deploykit.build(tmp_path / "model.onnx", dims={"xs_length": 2}, output=tmp_path / "dist")
    items = [np.ones((3, 2), np.float32), np.zeros((1, 2), np.float32)]
    assert deploykit.verify(tmp_path / "dist", inputs={"xs": items}).within
    with pytest.raises(deploykit.UsageError, match="'xs' is a sequence of 2 items: give a list of as many"):
        deploykit.verify(tmp_path / "dist", inputs={"xs": items[:1]})


def test_bench_times_an_artifact_next_to_a_peer(artifact: Path) -> None:
    found = deploykit.bench(artifact, at={"batch": 4}, against="onnxruntime", seconds=0.05, profile=True)
    assert found.sizes == {"batch": 4}
    assert found.ratio is not None
    assert found.profile is not None
    assert found.profile.steps


def test_a_build_is_checked_at_the_sizes_that_it_is_given(model: Path, tmp_path: Path) -> None:
    options = {"dims": {"batch": (1, 16)}, "output": tmp_path / "dist", "check": True}
    ids = {"ids": np.array([0, 1, 2])}
    assert deploykit.build(model, **options, check_at={"batch": 3}, check_inputs=ids) is not None
    with pytest.raises(deploykit.ShapeError, match=r"1\.\.16, found 17"):
        deploykit.build(model, **options, check_at={"batch": 17})


def test_inspect_describes_models_and_artifacts(artifact: Path, model: Path, tmp_path: Path) -> None:
    assert deploykit.inspect(model, {"batch": (1, 8)}).operators == {"Add": 1, "Gather": 1}
    report = deploykit.inspect(artifact)
    assert [port.name for port in report.manifest.inputs] == ["x", "ids"]
    assert "gather" in report.listing
    report.draw(tmp_path / "plan.svg", at={"batch": 2})
    assert (tmp_path / "plan.svg").exists()
    with pytest.raises(deploykit.UsageError, match="were fixed when it was built"):
        deploykit.inspect(artifact, {"batch": 3})


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"n": "1..4"}, "dim 'n': a size is an integer, found '1..4'"),
        ({"n": 1.5}, "dim 'n': a size is an integer, found 1.5"),
        ({"n": (1, 2, 3)}, r"dim 'n': give a size or a pair of bounds, found \(1, 2, 3\)"),
        ({"n": (4, 1)}, "dim 'n': the maximum 1 is below the minimum 4"),
        ({"n": (-1, 4)}, "dim 'n': the minimum -1 is negative"),
        ({"capacity_x": "many"}, "dim 'capacity_x': a size is an integer, found 'many'"),
        ({"capacity_x": (4, 1)}, "dim 'capacity_x': the maximum 1 is below the minimum 4"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(dims: Any, message: str, tmp_path: Path) -> None:
    model = parse("(float[n] x) => (float[n] y) { y = Abs(x) }")
    with pytest.raises(UsageError, match=message):
        deploykit.build(model, dims=dims, output=tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_only_capacities_are_bounded_once_a_model_is_loaded(tmp_path: Path) -> None:
    text = """(float[4, 1] x, int64[2] shape, float[m, 4] w) => (float[a, b] y) {
        e = Expand(x, shape)  y = MatMul(w, e) }"""
    model = deploykit.load(parse(text))
    with pytest.raises(UsageError, match=r"the model is loaded already: give dims to deploykit\.load"):
        deploykit.build(model, dims={"m": (1, 4)}, output=tmp_path / "dist")
    assert not (tmp_path / "dist").exists()
    found = deploykit.build(model, dims={"capacity_e": (8, 64)}, output=tmp_path / "dist")
    assert found is not None
    assert [(dim.minimum, dim.maximum) for dim in found.manifest.dims if dim.name == "capacity_e"] == [(8, 64)]


def test_sizes_that_are_no_integers_are_refused(artifact: Path) -> None:
    at: Any
    for at in ("1", 1.5, [1, None]):
        with pytest.raises(UsageError, match="dim 'batch': a size is an integer"):
            deploykit.verify(artifact, at={"batch": at})
    with pytest.raises(UsageError, match="dim 'batch': a size is an integer"):
        deploykit.bench(artifact, at={"batch": "1"})  # type: ignore[dict-item]
    with deploykit.open(artifact) as session, pytest.raises(UsageError, match="a size is an integer"):
        session.peak_bytes({"batch": "1"})  # type: ignore[dict-item]


def test_values_that_are_no_arrays_are_refused(artifact: Path) -> None:
    with pytest.raises(ShapeError, match="no array of float32"):
        deploykit.verify(artifact, at={"batch": 2}, inputs={"x": object()})  # type: ignore[dict-item]
