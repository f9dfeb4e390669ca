"""`deploykit build`: the files that it writes, the text that it prints, and that a failed build leaves no files."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from deploykit.artifact.folder import artifact_folder
from deploykit.artifact.manifest import DimEntry, Manifest, MemoryEntry
from deploykit.building import build
from deploykit.cli.build import memory_lines
from deploykit.compiler.observer import STAGES
from deploykit.errors import UsageError
from tests.frontends.onnx.harness import parse


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
    assert any(stage in path.name for path in (tmp_path / "dump").rglob("*.*"))


def test_each_stage_is_announced_once(model: Path, tmp_path: Path) -> None:
    """This holds for any number of programs in the artifact."""
    announced: list[str] = []
    build(model, cpu="portable", output=tmp_path / "dist", on_stage=announced.append)
    assert tuple(announced) == STAGES


@pytest.mark.parametrize(
    ("arguments", "variants"),
    [
        (["--cpu", "portable"], {"x86-64-v2", "x86-64-v3", "x86-64-v4"}),
        (["--target", "webgpu"], {"wasm-simd128", "webgpu"}),
        (["--target", "embedded", "--dim", "batch=1..8"], {"scalar-c"}),
    ],
)
def test_each_variant_is_dumped_in_a_folder_of_its_own(
    deploykit, model: Path, tmp_path: Path, arguments: list[str], variants: set[str]
) -> None:
    dump = tmp_path / "dump"
    assert deploykit("build", model, *arguments, "--stop-after", "program", "--dump-dir", dump).code == 0
    assert {path.name for path in dump.iterdir()} == {"0_import.py", *variants}
    for variant in variants:
        names = {path.name for path in (dump / variant).iterdir()}
        reasons = {"1_graph.decisions.txt", "2_kernels.decisions.txt"}
        assert names == {"1_graph.py", "2_kernels.py", "3_program.txt", *reasons}


ATTENTION = """
    (float[n,4] q, float[n,4] k, float[n,4] v) => (float[n,4] y)
    { t = Transpose(k)  scores = MatMul(q, t)  weights = Softmax(scores)  mixed = MatMul(weights, v)  y = Relu(mixed) }
"""


def test_without_fusion_each_operator_has_a_kernel_of_its_own(deploykit, tmp_path: Path) -> None:
    onnx.save(parse(ATTENTION), tmp_path / "model.onnx")
    for options, kernels in (((), 1), (("--no-fuse",), 5)):
        folder = tmp_path / f"{kernels}"
        assert deploykit("build", tmp_path / "model.onnx", "-o", folder, *options).code == 0
        assert (folder / "program.txt").read_text().count(" = ") == kernels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "toaster"], "there is no target 'toaster'; there are android, embedded, host, webgpu"),
        (["--dim", "batch=x"], "batch=1..64"),
        (["--dim", "rows=3"], "no dim named rows; its dims are: batch"),
        (["--cpu", "z80"], "x86-64-v3"),
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
    assert "internal error in the command: ZeroDivisionError: on purpose" in result.err
    assert "Please report it" in result.err
    (report,) = re.findall(r"/\S*deploykit-fault-\w*\.txt", result.err)
    assert "on purpose" in Path(report).read_text()
    Path(report).unlink()


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


def test_dims_are_separated_by_commas_and_given_once(deploykit, model: Path, tmp_path: Path) -> None:
    for dims in (["--dim", "batch=1..4,batch=2"], ["--dim", "batch=1", "--dim", "batch=2"]):
        result = deploykit("build", model, "-o", tmp_path / "dist", *dims)
        assert (result.code, "dim 'batch' is given 2 times" in result.err) == (2, True)
    result = deploykit("build", model, "-o", tmp_path / "dist", "--dim", "batch=1..4,seq=2")
    assert (result.code, "no dim named seq" in result.err) == (2, True)


def test_the_folder_that_a_command_runs_in_is_kept(
    deploykit, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    for output in (".", "..", "/", tmp_path):
        result = deploykit("build", model, "-o", output)
        assert (result.code, "choose another output" in result.err) == (2, True)
    assert (tmp_path / "inner").samefile(".")


def test_what_a_killed_build_leaves_is_removed(deploykit, model: Path, tmp_path: Path) -> None:
    (tmp_path / ".dist.abcdefgh" / "new").mkdir(parents=True)
    (tmp_path / ".dist.abcdefgh" / "lock").touch()
    (tmp_path / ".dist.notours1").mkdir()
    alive = tmp_path / ".dist.alive123"
    alive.mkdir()
    with (alive / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert deploykit("build", model, "-o", tmp_path / "dist").code == 0
    assert sorted(path.name for path in tmp_path.glob(".dist.*")) == [".dist.alive123", ".dist.notours1"]


def test_an_artifact_that_a_killed_build_had_put_aside_goes_back(tmp_path: Path) -> None:
    left = tmp_path / ".dist.abcdefgh"
    (left / "old").mkdir(parents=True)
    (left / "lock").touch()
    (left / "old" / "manifest.json").write_text("{}")
    with pytest.raises(UsageError), artifact_folder(tmp_path / "dist"):
        raise UsageError("this build fails")
    assert (tmp_path / "dist" / "manifest.json").exists()
    assert not left.exists()


@pytest.mark.parametrize("reader", ["head -c 1", "true"])
def test_a_reader_that_has_enough_sees_no_traceback(reader: str) -> None:
    command = f"{sys.executable} -m deploykit targets --json | {reader}; {sys.executable} -m deploykit targets >&-"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_memory_of_a_model_whose_only_dims_are_capacities() -> None:
    memory = MemoryEntry(formula="64*capacity_a", at_bounds=64, weights=0)
    dim = DimEntry(name="capacity_a", minimum=1, maximum=None, capacity_of="a")
    manifest = Manifest.model_construct(dims=(dim,), peak_memory=memory)
    assert memory_lines(manifest)[1].endswith("at the least capacities; a run that needs more increases them")


def test_a_long_formula_of_memory_is_printed_as_sizes() -> None:
    formula = f"max({', '.join(f'{number}*batch*seq' for number in range(1, 41))})"
    memory = MemoryEntry(formula=formula, at_bounds=40 * 4 * 100, weights=8)
    dims = (DimEntry(name="batch", minimum=1, maximum=4), DimEntry(name="seq", minimum=1, maximum=100))
    manifest = Manifest.model_construct(name="m", peak_memory=memory, dims=dims)
    assert [line.strip() for line in memory_lines(manifest)[1:]] == [
        "40 bytes (40 B) at batch=1, seq=1",
        "800 bytes (800 B) at batch=2, seq=10",
        "16,000 bytes (16.0 kB) at batch=4, seq=100",
        "8 bytes (8 B) of weights",
    ]
