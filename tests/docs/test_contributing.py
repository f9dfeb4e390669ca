"""The instructions in CONTRIBUTING.md work: they add an operator, a schedule and a target."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.basics.toolchain import find_c_compiler

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def block(name: str) -> str:
    (found,) = re.findall(rf"^   ```python {name}\n(.*?)^   ```", TEXT, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(found)


def test_the_tests_that_it_names_exist() -> None:
    named = re.findall(r"`(?:FILES=)?(tests/[\w/.]+)`", TEXT)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_an_operator(tmp_path: Path) -> None:
    from deploykit.frontends.onnx import registry

    text = (
        '<ir_version: 8, opset_import: ["" : 17, "acme" : 1]> m (float[n, 3] x) => (float[n, 3] y) { y = acme.Cube(x) }'
    )
    model = onnx.parser.parse_model(text)
    with pytest.raises(deploykit.UnsupportedModelError):
        deploykit.load(model)
    exec(block("operator"), {})
    try:
        deploykit.build(model, output=tmp_path / "dist")
    finally:
        del registry._OPERATORS["acme", "Cube"]
    x = np.array([[1, -2, 3]], np.float32)
    assert np.array_equal(deploykit.open(tmp_path / "dist")(x=x)["y"], x**3)


def test_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvm import te, tirx

    from deploykit.compiler.schedules import DEVICES, driver, explain

    names: dict[str, object] = {}
    exec(block("schedule"), names)
    monkeypatch.setattr(driver, "RULES", {"fill": names["fill"], **driver.RULES})
    n = tirx.Var("n", "int64")
    device = next(iter(DEVICES.values()))
    ones = te.compute((n, 3), lambda *_: tirx.const(1.0, "float32"), name="ones")
    assert [choice.rule for choice in explain(te.create_prim_func([ones]), device)] == ["fill"]
    x = te.placeholder((n, 3), "float32", name="x")
    twice = te.compute((n, 3), lambda i, j: x[i, j] * 2, name="twice")
    (choice,) = explain(te.create_prim_func([x, twice]), device)
    assert str(choice).startswith("twice: elementwise; not fill: it reads a tensor; ")


def installed(folder: Path, kind: str, name: str) -> Path:
    """A folder that holds the block of a kind, `frontend` or `target`, as an installed package."""
    (entry,) = re.findall(rf'^   {name} = "((\w+):\w+)"$', TEXT, re.MULTILINE)
    (folder / f"{entry[1]}.py").write_text(block(kind))
    metadata = folder / f"{entry[1]}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {entry[1]}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[deploykit.{kind}s]\n{name} = {entry[0]}\n")
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return installed(tmp_path, "target", "sources")


def called(target: Path, *arguments: str) -> str:
    """What a module of Python prints, with the target installed."""
    environment = os.environ | {"PYTHONPATH": f"{target}:{ROOT}"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=target, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_frontend(tmp_path: Path) -> None:
    folder = installed(tmp_path, "frontend", "linear")
    (folder / "two.linear").write_text("[[1, 2], [3, 4], [5, 6]]")
    assert "a linear model in JSON" in " ".join(called(folder, "deploykit", "frontends").split())
    called(folder, "deploykit", "build", "two.linear", "--scale", "10", "--dim", "n=1..4", "-o", "dist")
    x = np.float32([[1, 0, 1], [0, 2, 0]])
    with deploykit.open(folder / "dist") as session:
        assert np.array_equal(session(x=x)["y"], np.float32([[60, 80], [60, 80]]))
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> m (float[n] x) => (float[n] y) { y = Relu(x) }'
        ),
        folder / "relu.onnx",
    )
    with pytest.raises(subprocess.CalledProcessError) as error:
        called(folder, "deploykit", "build", "relu.onnx", "--scale", "10", "-o", "other")
    assert "the option 'scale' is for a linear model; relu.onnx, an ONNX file, has no" in " ".join(
        error.value.stderr.split()
    )


def test_a_target(target: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }'
    )
    onnx.save(model, target / "relu.onnx")
    assert "C sources and a weights file" in called(target, "deploykit", "targets")
    called(target, "deploykit", "build", "relu.onnx", "--target", "sources", "-o", "dist")
    compiler = find_c_compiler()
    for name in ("model.c", "kernels.c", "deploykit.c", "errors.c"):
        compiler.compile(target / "dist" / name, target / f"{name}.o")
    assert "within tolerance" in called(target, "deploykit", "verify", "dist")


@pytest.mark.slow
def test_every_suite_runs_on_a_new_target(target: Path) -> None:
    (target / "acme_runtime.py").write_text(
        "import tests.runtimes\nfrom tests.runtimes import NOTHING, Runtime\nfrom acme_targets import SourcesTarget\n"
        f"tests.runtimes.RUNTIMES += ({block('runtime').strip()},)\n"
    )
    folders = ("runtime/test_steps.py", "frontends/test_functions.py", "frontends/onnx/test_pooling.py")
    suites = [str(ROOT / "tests" / name) for name in folders]
    cases = [
        f"{ROOT}/tests/conformance/test_onnx_suite.py::{test}[sources-test_gemm_default_matrix_bias]"
        for test in ("test_case", "test_dynamic_variant")
    ]
    options = ("-q", "-p", "acme_runtime", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    printed = called(target, "pytest", *options, "-k", "sources", *suites, *cases)
    (passed,) = re.findall(r"^(\d+) passed", printed, re.MULTILINE)
    assert int(passed) > 35
    assert "skipped" not in printed
