"""What C, its example program and READMEs say of ragged inputs and outputs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import deploykit
from deploykit.compiler.model import ImportedModel
from deploykit.targets.embedded.lengths import divided
from tests.ragged import matrix_model, token_model


@pytest.mark.parametrize("target", ["host", "embedded", "webgpu"])
def test_headers_and_readmes_say_what_a_ragged_tensor_is(tmp_path: Path, target: str) -> None:
    deploykit.build(token_model(), target, output=tmp_path / "dist")
    readme = (tmp_path / "dist" / "README.md").read_text()
    assert "| `x` | float32[tokens, 4], instances [lengths, 4] one after the other |" in readme
    assert "| `lengths` | int64[batch], lengths of the instances of x, ids, y, next |" in readme
    assert "one after the other without padding" in readme
    if target != "webgpu":
        header = (tmp_path / "dist" / "model.h").read_text()
        assert "input  0  x  float32[tokens, 4], instances [lengths, 4] one after the other\n" in header
        assert "input  2  lengths  int64[batch], lengths of the instances of x, ids, y, next\n" in header


@pytest.mark.parametrize(("model", "shapes"), [
    (token_model(), ["y float32[64, 4]", "next int64[64]", "doubled int64[8]"]),
    (matrix_model(), ["y float32[8]", "size int64[8]"]),
])  # fmt: skip
def test_the_example_program_has_lengths_that_add_up(tmp_path: Path, model: ImportedModel, shapes: list[str]) -> None:
    deploykit.build(model, "embedded", output=tmp_path / "dist")
    made = subprocess.run(["make", "-s", "-C", tmp_path / "dist", "run"], capture_output=True, text=True, check=True)
    assert [line.partition(":")[0] for line in made.stdout.splitlines()] == shapes
    lengths = made.stdout.splitlines()[-1]
    assert (": 10 10 10 10" if len(shapes) == 3 else ": 01 01 01 01") in lengths


def test_lengths_differ_by_at_most_one() -> None:
    assert divided(10, 4) == [2, 3, 2, 3]
    assert divided(0, 2) == [0, 0]
