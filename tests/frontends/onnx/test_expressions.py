"""Operators use int64 indices."""

from __future__ import annotations

import re
from pathlib import Path

from deploykit.compiler.operators.building import expressions
from deploykit.frontends import onnx
from deploykit.frontends.onnx import ops


def test_operators_make_tensors_with_the_functions_for_int64_indices() -> None:
    own = Path(expressions.__file__)
    folders = (own.parent, Path(onnx.__file__).parent, Path(ops.__file__).parent)
    sources = [path for folder in folders for path in folder.glob("*.py") if path != own]
    assert not [path.name for path in sources if re.search(r"\bte\.(compute|reduce_axis)\(", path.read_text())]
