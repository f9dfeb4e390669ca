"""`deploykit build`: what it writes, what it prints, and what it leaves behind when it fails."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest


def test_a_build_writes_what_it_lists(deploykit, model: Path, tmp_path: Path) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", "--dim", "batch=1..16", "--json")
    assert result.code == 0, result.err
    manifest = result.document["manifest"]
    on_disk = {path.name for path in (tmp_path / "dist").rglob("*") if path.is_file()}
    assert on_disk == {entry["name"] for entry in manifest["files"]} | {"manifest.json"}
    for entry in manifest["files"]:
        data = (tmp_path / "dist" / entry["name"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])
    assert json.loads((tmp_path / "dist" / "manifest.json").read_text())["dims"] == [
        {"name": "batch", "minimum": 1, "maximum": 16, "capacity_of": None}
    ]


def test_a_build_prints_stages_files_and_memory(deploykit, model: Path, tmp_path: Path) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", "--dim", "batch=1..16")
    assert result.code == 0
    for word in ("sha256", "gzip bytes", "weights.bin", "batch=16", "of weights", "import", "emit"):
        assert word in result.out
    for stage in ("import", "graph", "kernels", "program", "emit", "package"):
        assert f"  {stage} " in result.err


def test_dims_can_be_fixed(deploykit, model: Path, tmp_path: Path) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", "--dim", "batch=3", "--json")
    assert result.document["manifest"]["inputs"][0]["shape"] == [3, 8]
    assert result.document["manifest"]["dims"] == []


def test_fast_math_is_recorded(deploykit, model: Path, tmp_path: Path) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", "--fast-math")
    assert "fast math" in result.out
    assert json.loads((tmp_path / "dist" / "manifest.json").read_text())["fast_math"]
    assert "fast math" in deploykit("inspect", tmp_path / "dist").out


@pytest.mark.parametrize("stage", ["import", "graph", "kernels", "program", "emit"])
def test_a_build_stops_after_a_stage_and_dumps_it(deploykit, model: Path, tmp_path: Path, stage: str) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", "--stop-after", stage, "--dump-dir", tmp_path / "dump")
    assert result.code == 0, result.err
    assert f"Stopped after {stage}" in result.err
    assert not (tmp_path / "dist").exists()
    assert any(stage in path.name for path in (tmp_path / "dump").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "toaster"], "there is no target 'toaster'; there are embedded, host, webgpu"),
        (["--dim", "batch=x"], "batch=1..64"),
        (["--dim", "rows=3"], "no dim named rows; its dims are: batch"),
        (["--cpu", "z80"], "x86-64-v3"),
        (["--opt", "O9"], "'O0', 'O1', 'O2'"),
        (["--stop-after", "lunch"], "'import'"),
        (["--target", "embedded"], "--dim batch=1..N"),
        (["--target", "embedded", "--dim", "batch=1", "--fast-math"], "build without --fast-math"),
    ],
)
def test_wrong_use_is_exit_code_2(deploykit, model: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = deploykit("build", model, "-o", tmp_path / "dist", *arguments)
    assert result.code == 2
    assert message in " ".join(result.err.replace("│", "").split())
    assert not any(tmp_path.iterdir())


def test_a_missing_model_is_exit_code_2(deploykit, tmp_path: Path) -> None:
    result = deploykit("build", tmp_path / "none.onnx")
    assert result.code == 2
    assert "none.onnx" in result.err


def test_a_broken_model_is_exit_code_3(deploykit, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(model.read_bytes()[:100])
    result = deploykit("build", path, "-o", tmp_path / "dist")
    assert result.code == 3
    assert "broken.onnx" in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "dist").exists()


def test_every_unsupported_node_is_reported(deploykit, tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "acme" : 1]>
        strange (float[n] x) => (float[n] y) { [first] a = acme.Widget(x)  [second] y = acme.Gadget(a) }
    """)
    onnx.save(model, tmp_path / "strange.onnx")
    result = deploykit("build", tmp_path / "strange.onnx", "-o", tmp_path / "dist", "--json")
    assert result.code == 3
    problems = result.document["error"]["problems"]
    assert [(problem["node"], problem["opset"]) for problem in problems] == [("first", 1), ("second", 1)]
    assert all("acme" in problem["reason"] for problem in problems)


@pytest.mark.parametrize("place", ["/proc/nowhere/dist", "{file}/dist", "{file}"])
def test_a_place_that_cannot_be_written_is_exit_code_2(deploykit, model: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    result = deploykit("build", model, "-o", place.format(file=tmp_path / "file"))
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith("error:")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_of_somebody_else_is_left_alone(deploykit, model: Path, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    result = deploykit("build", model, "-o", tmp_path)
    assert result.code == 2
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_tracebacks_are_shown_on_request_only(deploykit, tmp_path: Path) -> None:
    assert "Traceback" not in deploykit("build", tmp_path / "none.onnx").err
    assert "Traceback" in deploykit("build", tmp_path / "none.onnx", "--debug").err


def test_an_internal_error_is_one_line_and_how_to_report_it(deploykit, model: Path, monkeypatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("deploykit.building.build", fail)
    result = deploykit("build", model)
    assert result.code == 70
    assert "internal error: ZeroDivisionError: on purpose" in result.err
    assert "please report it" in result.err


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_build_leaves_nothing_behind(
    model: Path, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "deploykit", "build", model, "-o", tmp_path / "dist"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "import" in process.stderr.readline()
    time.sleep(0.02)
    process.send_signal(sent)
    messages = process.stderr.read()
    assert process.wait() == code
    assert "Traceback" not in messages
    assert not any(tmp_path.iterdir())
