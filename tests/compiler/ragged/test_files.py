"""Operators in Python files, as the command line and `deploykit.build` take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit import ragged
from deploykit.errors import UsageError
from deploykit.ragged import Operator
from deploykit.ragged.files import load_operator
from deploykit.sources.places import place_of

TEXT = """
from deploykit import ragged

batch = ragged.dim("batch", maximum=8)
length = ragged.lengths("lengths", batch, maximum=9)
row = ragged.dim("row", length[batch])
x = ragged.input("x", (batch, row))
doubled = ragged.operator("doubled", ragged.compute("y", (batch, row), x[batch, row] * 2))
"""


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    (tmp_path / "ops.py").write_text(TEXT)
    return tmp_path / "ops.py"


def test_a_name_in_a_file_is_built(ops: Path, tmp_path: Path) -> None:
    artifact = deploykit.build(f"{ops}:doubled", output=tmp_path / "dist")
    assert artifact is not None
    assert artifact.manifest.source is not None
    assert artifact.manifest.source.file == "ops.py"
    with deploykit.open(tmp_path / "dist") as session:
        found = session(x=[np.ones(2, np.float32), np.zeros(1, np.float32)])["y"]
    assert [array.tolist() for array in found] == [[2, 2], [0]]


def test_an_operator_is_loaded_and_built(ops: Path, tmp_path: Path) -> None:
    operator = load_operator(ops, "doubled")
    assert isinstance(operator, Operator)
    assert [port.name for port in deploykit.load(operator).inputs] == ["x", "lengths"]
    assert deploykit.build(operator, "embedded", output=tmp_path / "dist")


def test_paths() -> None:
    assert place_of("a/ops.py:name") == (Path("a/ops.py"), "name")
    assert place_of(Path("ops.py:name")) == (Path("ops.py"), "name")
    assert place_of("model.onnx") is None
    assert place_of("ops.py") is None


def test_what_is_wrong_is_said(ops: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no operator 'other'; it has doubled"):
        deploykit.load(f"{ops}:other")
    with pytest.raises(UsageError, match="there is no file"):
        deploykit.load(f"{tmp_path}/none.py:name")
    with pytest.raises(UsageError, match="an operator says itself"):
        deploykit.load(f"{ops}:doubled", {"batch": 1})
    with pytest.raises(UsageError, match="cannot be checked"):
        deploykit.build(f"{ops}:doubled", output=tmp_path / "dist", check=True)
    (tmp_path / "bad.py").write_text("1 / 0")
    with pytest.raises(UsageError, match="cannot be run: ZeroDivisionError"):
        deploykit.load(f"{tmp_path}/bad.py:name")
    (tmp_path / "late.py").write_text(TEXT.replace("x[batch, row]", "x[batch, row + 1]"))
    with pytest.raises(UsageError, match=r"late.py: index row \+ 1 of dim 'row'"):
        deploykit.load(f"{tmp_path}/late.py:doubled")


def test_names_that_clash_and_sizes_that_nothing_gives_are_refused() -> None:
    batch = ragged.dim("batch")
    row = ragged.dim("row", ragged.lengths("x", batch)[batch])
    x = ragged.input("x", (batch, row))
    with pytest.raises(UsageError, match="have the name 'x'"):
        ragged.operator("clash", ragged.compute("y", (batch, row), x[batch, row]))
    ones = ragged.compute("ones", (batch,), 1.0)
    with pytest.raises(UsageError, match="gives the size 'batch'"):
        deploykit.load(ragged.operator("nothing", ones))
    first, other = ragged.dim("size"), ragged.dim("size")
    z = ragged.input("z", (first, other))
    with pytest.raises(UsageError, match="two sizes of 'twice' have the name 'size'"):
        deploykit.load(ragged.operator("twice", ragged.compute("y", (first, other), z[first, other])))
    with pytest.raises(UsageError, match="depends on row"):
        ragged.compute("y", (batch,), x[batch, row])
