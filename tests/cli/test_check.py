"""`deploykit build --check`: an artifact is written only if it computes the same as ONNX Runtime."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deploykit as package
from deploykit.checks import final_check
from deploykit.checks.sources import RandomSource
from deploykit.errors import MismatchError, UsageError
from deploykit.targets.host import HostTarget

FAULTY_TARGET = '''
"""The host target with a weight that is off."""
import numpy as np
from deploykit.targets.host import HostTarget


class Faulty(HostTarget):
    name = "faulty"

    def package(self, programs, emitted, folder, options):
        names = super().package(programs, emitted, folder, options)
        weights = np.fromfile(folder / "weights.bin", np.float32)
        weights[-1] += 0.5
        weights.tofile(folder / "weights.bin")
        return names
'''


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a target that another package registers and whose artifacts are wrong."""
    site = tmp_path / "site"
    metadata = site / "faulty_targets-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-targets\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[deploykit.targets]\nfaulty = faulty_targets:Faulty\n")
    (site / "faulty_targets.py").write_text(FAULTY_TARGET)
    monkeypatch.syspath_prepend(site)
    return "faulty"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A model file. The model looks up rows of a table with 8 rows: y[batch, seq, 4]."""
    rows = np.arange(32, dtype=np.float32).reshape(8, 4)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["rows", "ids"], ["y"], name="look")],
        "table",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ("batch", "seq"))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", "seq", 4))],
        [onnx.numpy_helper.from_array(rows, "rows")],
    )
    path = tmp_path / "table.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_right_artifact_is_written(deploykit, model: Path, tmp_path: Path) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", "--dim", "batch=1..16", "--check")
    assert result.code == 0, result.err
    assert "  check " in result.err
    assert (tmp_path / "dist" / "manifest.json").is_file()


def test_the_sizes_of_the_check_can_be_chosen(deploykit, model: Path, tmp_path: Path) -> None:
    arguments = ("build", model, "-o", tmp_path / "dist", "--dim", "batch=1..16", "--at", "batch=3,17")
    result = deploykit(*arguments)
    assert (result.code, "sizes are for a check, which is not asked for" in result.err) == (2, True)
    result = deploykit(*arguments, "--check")
    assert (result.code, "1..16, found 17" in result.err) == (2, True)
    assert not (tmp_path / "dist").exists()


def test_a_wrong_artifact_is_not(deploykit, faulty: str, table: Path, tmp_path: Path) -> None:
    arguments = ("build", table, "-t", faulty, "--dim", "batch=1..3", "--dim", "seq=1..5", "-o", tmp_path / "dist")
    before = sorted(tmp_path.iterdir())
    result = deploykit(*arguments, "--check", "--input", "ids=random:0:6..7")
    assert result.code == 1
    text = " ".join(result.err.split())
    for part in ("output 'y' at batch=3, seq=5:", "worst at [", "largest error 0.5", "Nothing was written"):
        assert part in text
    assert sorted(tmp_path.iterdir()) == before
    assert deploykit(*arguments, "--check").code == 0, "the row that is off is not read by indices of 0 and 1"


def test_what_stood_there_stays_when_a_check_fails(deploykit, faulty: str, table: Path, tmp_path: Path) -> None:
    place = tmp_path / "dist"
    assert deploykit("build", table, "-o", place).code == 0
    before = {path: path.read_bytes() for path in place.iterdir()}
    result = deploykit("build", table, "-t", faulty, "-o", place, "--check", "--input", "ids=random:0:7..7")
    assert result.code == 1
    assert {path: path.read_bytes() for path in place.iterdir()} == before


def test_python_checks_models_in_memory(faulty: str, table: Path, tmp_path: Path) -> None:
    proto = onnx.load(table)
    assert package.build(proto, output=tmp_path / "right", check=True) is not None
    values = {"ids": RandomSource(0, 7, 7)}
    with pytest.raises(MismatchError, match="output 'y'"):
        package.build(proto, target=faulty, output=tmp_path / "wrong", check=True, check_inputs=values)
    assert not (tmp_path / "wrong").exists()


def test_an_imported_model_cannot_be_checked(table: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give `build` the file"):
        package.build(package.load(table), output=tmp_path / "dist", check=True)


def test_values_without_a_check_are_wrong_use(deploykit, table: Path, tmp_path: Path) -> None:
    result = deploykit("build", table, "-o", tmp_path / "dist", "--input", "ids=random:0:0..7")
    assert result.code == 2
    assert "--check" in result.err


def test_an_end_that_cannot_be_run_is_a_note(deploykit, tmp_path: Path) -> None:
    """Input `c` has size `a + b`, but its dim has its own name and bounds in the file: the upper bounds do not fit."""
    graph = helper.make_graph(
        [
            helper.make_node("Concat", ["a", "b"], ["ab"], axis=0),
            helper.make_node("Add", ["ab", "c"], ["y"]),
        ],
        "sum",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (name,)) for name in "abc"],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n",))],
    )
    path = tmp_path / "sum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    bounds = ("--dim", "a=1..4", "--dim", "b=1..4", "--dim", "c=2..7")
    result = deploykit("build", path, *bounds, "-o", tmp_path / "dist", "--check")
    assert result.code == 0, result.err
    assert "not checked at a=4, b=4, c=7:" in " ".join(result.err.split())
    result = deploykit("build", path, *bounds[:-1], "c=5..7", "-o", tmp_path / "dist", "--check")
    assert result.code == 2
    assert "neither end" in result.err


VARIANCE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 256] x) => (float[n, 1] y) {
  mean = ReduceMean<axes = [1]>(x)
  squares = Mul(x, x)
  mean_of_squares = ReduceMean<axes = [1]>(squares)
  square_of_mean = Mul(mean, mean)
  y = Sub(mean_of_squares, square_of_mean)
}"""


def test_what_rounding_decides_is_a_note(deploykit, tmp_path: Path) -> None:
    """Mean of squares minus square of the mean: one right digit for numbers around 1000, six for numbers around 0."""
    path, place = tmp_path / "variance.onnx", tmp_path / "dist"
    onnx.save(onnx.parser.parse_model(VARIANCE), path)
    arguments = ("build", path, "-o", place, "--dim", "n=1..64", "--check", "--input")
    result = deploykit(*arguments, "x=random:0:999..1001")
    assert result.code == 0, result.err
    note = "output 'y' at n=64 differs from onnxruntime by "
    assert note in " ".join(result.err.split())
    assert note in (place / "manifest.json").read_text()
    assert "differs" not in deploykit(*arguments, "x=random:0:-1..1").err

    verify = ("verify", place, "--model", path, "--at", "n=64", "--input", "x=random:0:999..1001")
    result = deploykit(*verify)
    assert result.code == 0, result.err
    assert "not judged" in result.out
    assert note in " ".join(result.err.split())
    (check,) = deploykit(*verify, "--json").document["checks"]
    (output,) = check["outputs"]
    assert (output["within"], output["wrong"]) == (False, False)
    assert deploykit(*verify, "--rtol", 1e-3, "--atol", 1e-5).code == 1


def test_values_that_onnxruntime_refuses_leave_nothing(deploykit, table: Path, tmp_path: Path) -> None:
    result = deploykit("build", table, "-o", tmp_path / "dist", "--check", "--input", "ids=random:0:90..99")
    assert result.code == 2
    assert not (tmp_path / "dist").exists()


def test_a_small_model_is_checked_unasked(deploykit, model: Path, tmp_path: Path) -> None:
    call = ("build", model, "-o", tmp_path / "dist", "--dim", "batch=1..4")
    assert "  check " in deploykit(*call).err
    for options in (("--no-check",), ("--target", "embedded"), ("--cpu", "armv8-a")):
        result = deploykit(*call, *options)
        assert (result.code, "  check " in result.err) == (0, False), result.err


def test_what_takes_long_is_not(deploykit, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_check, "_UNASKED_OPERATIONS", 1)
    result = deploykit("build", model, "-o", tmp_path / "dist")
    assert result.code == 0
    assert "note: not checked: a run takes " in result.err
    monkeypatch.setattr(final_check, "UNASKED_BYTES", 1)
    result = deploykit("build", model, "-o", tmp_path / "dist")
    assert (result.code, "check" in result.err) == (0, False)


def test_without_onnxruntime_nothing_is_said(
    deploykit, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else found(name))
    result = deploykit("build", model, "-o", tmp_path / "dist")
    assert (result.code, "check" in result.err) == (0, False)


def test_a_wrong_artifact_is_not_written_unasked(table: Path, tmp_path: Path) -> None:
    class Wrong(HostTarget):
        def package(self, *arguments: Any) -> list[str]:
            names = super().package(*arguments)
            (arguments[2] / "weights.bin").write_bytes(bytes(128))
            return names

    with pytest.raises(MismatchError, match="With --no-check"):
        package.build(table, Wrong(), output=tmp_path / "dist", check=None)
    assert not (tmp_path / "dist").exists()
    package.build(table, Wrong(), output=tmp_path / "dist")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            'opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { r = RandomNormalLike(x) y = Add(x, r) }',
            "numbers",
        ),
        ('opset_import: ["" : 28]> g (float[n] x) => (float[n] y) { y = Neg(x) }', "cannot load"),
        ('opset_import: ["" : 17]> g (float[4] x, int64[n] at) => (float[n] y) { y = Gather(x, at) }', ""),
    ],
    ids=["random", "refused", "right"],
)
def test_what_cannot_be_compared_is_a_note(deploykit, tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(f"<ir_version: 8, {text}"), path)
    result = deploykit("build", path, "-o", tmp_path / "dist")
    assert result.code == 0, result.err
    notes = [line for line in result.err.splitlines() if line.startswith("note: not checked: ")]
    assert [reason in note for note in notes] == ([True] if reason else [])
    if reason:
        assert deploykit("build", path, "-o", tmp_path / "other", "--check").code in (2, 3)
