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


def test_a_target(tmp_path: Path) -> None:
    (tmp_path / "acme_targets.py").write_text(block("target"))
    metadata = tmp_path / "acme_targets-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-targets\nVersion: 1.0\n")
    (entry,) = re.findall(r'^   (sources = )"(.*)"$', TEXT, re.MULTILINE)
    (metadata / "entry_points.txt").write_text(f"[deploykit.targets]\n{entry[0]}{entry[1]}\n")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }'
    )
    onnx.save(model, tmp_path / "relu.onnx")

    def call(*arguments: str) -> str:
        environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
        command = [sys.executable, "-m", "deploykit", *arguments]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return result.stdout

    assert "C sources and a weights file" in call("targets")
    call("build", "relu.onnx", "--target", "sources", "-o", "dist")
    compiler = find_c_compiler()
    for name in ("model.c", "kernels.c", "deploykit.c"):
        compiler.compile(tmp_path / "dist" / name, tmp_path / f"{name}.o")
    assert "within tolerance" in call("verify", "dist")
