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
from deploykit.toolchain import find_c_compiler

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def block(name: str) -> str:
    (found,) = re.findall(rf"^   ```python {name}\n(.*?)^   ```", TEXT, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(found)


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


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A folder that holds the target as an installed package."""
    (tmp_path / "acme_targets.py").write_text(block("target"))
    metadata = tmp_path / "acme_targets-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-targets\nVersion: 1.0\n")
    (entry,) = re.findall(r'^   (sources = )"(.*)"$', TEXT, re.MULTILINE)
    (metadata / "entry_points.txt").write_text(f"[deploykit.targets]\n{entry[0]}{entry[1]}\n")
    return tmp_path


def called(target: Path, *arguments: str) -> str:
    """What a module of Python prints, with the target installed."""
    environment = os.environ | {"PYTHONPATH": f"{target}:{ROOT}"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=target, env=environment, capture_output=True, text=True, check=True).stdout


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
