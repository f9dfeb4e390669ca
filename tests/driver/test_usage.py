"""Models for a GPU in C programs."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from deploykit import runtime
from deploykit.building import load
from deploykit.compiler.codegen.host.source import emit_host
from deploykit.compiler.observer import Observer
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.pipeline import compile_program
from deploykit.targets.webgpu.devices import WEBGPU
from deploykit.targets.webgpu.variants import SHADERS
from tests.frontends.onnx.harness import parse


def test_a_run_without_a_driver_is_refused(tmp_path: Path) -> None:
    model = load(parse("(float[n] x) => (float[n] y) { y = Sqrt(x) }"))
    program = replace(compile_program(model, SHADERS, Observer(), {}), name="model")
    for name, text in emit_host([program], "0").items():
        (tmp_path / name).write_text(text)
    sources = [
        Path(__file__).with_name("usage.c"),
        tmp_path / "model.c",
        *runtime.CORE,
        runtime.DRIVER,
    ]
    options = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *SANITIZERS, f"-I{tmp_path}"]
    options.append(f"-DDK_MAX_SCALARS={WEBGPU.scalars}")
    command = ["gcc", *options, f"-I{runtime.INCLUDE}", *sources, "-o", tmp_path / "usage", "-lm"]
    subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "usage"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert printed[:2] == ["init: 0", "run: 8 the driver is NULL: set that of the model behind init"]
    assert printed[-1] == "run: 0"
    assert any(line.startswith("kernel 0") for line in printed)
