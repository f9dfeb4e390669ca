"""The types that `typings/` declares for TVM: are there such classes and functions?"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

TYPINGS = Path(__file__).parents[2] / "typings"


@pytest.mark.parametrize("path", sorted(TYPINGS.rglob("*.pyi")), ids=lambda path: str(path.relative_to(TYPINGS)))
def test_names_exist(path: Path) -> None:
    place = path.relative_to(TYPINGS).with_suffix("")
    module = import_module(".".join(part for part in place.parts if part != "__init__"))
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name != "__getattr__":
            assert isinstance(getattr(module, node.name), type) == isinstance(node, ast.ClassDef), node.name
