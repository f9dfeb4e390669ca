"""File names that are not valid text, and terminals that only have ASCII."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Format

import deploykit
from tests.frontends.huggingface.test_entries import config_of
from tests.language.models import write_language_model

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, ASCII], ids=["utf-8", "ascii"])
@pytest.mark.parametrize("name", [b"model\xff.onnx", "Zähler.onnx".encode()], ids=["bytes", "umlaut"])
def test_a_model_of_that_name(model: Path, tmp_path: Path, name: bytes, environment: dict[str, str]) -> None:
    (tmp_path / os.fsdecode(name)).write_bytes(model.read_bytes())

    def call(*arguments: str | bytes) -> str:
        command = [sys.executable, "-m", "deploykit", *arguments]
        found = subprocess.run(command, cwd=tmp_path, env=os.environ | environment, capture_output=True, check=False)
        assert found.returncode == 0, found.stderr
        return found.stdout.decode()

    assert "batch" in call("inspect", name)
    call("build", name, "-o", b"out-" + name, "--stop-after", "program")
    call("build", name, "-o", b"out-" + name)
    manifest = json.loads((tmp_path / os.fsdecode(b"out-" + name) / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["source"]["file"] == name.decode("utf-8", "replace")
    assert "y" in call("run", b"out-" + name, "--input", "x=random:0")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_language_model_of_that_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / os.fsdecode(b"model\xff")
    if kind == "file":
        write_language_model(path, Format.Q8_0)
    else:
        config_of("llama", path)
    deploykit.build(path, output=tmp_path / "out")
    with deploykit.open(tmp_path / "out") as session:
        assert session.manifest.name.startswith("model\N{REPLACEMENT CHARACTER}")
