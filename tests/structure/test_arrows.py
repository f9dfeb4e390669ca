"""Imports run one way: a package imports only packages in rows above it, and there are no circular imports.

Imports within functions count like others. Imports for type checkers count between packages; within a package, modules
may import each other for annotations.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = (
    ("errors",),
    ("basics", "runtime", "sessions.strings"),
    ("pictures",),
    ("sessions.structure", "sessions.ragged_array", "ragged", "dynamic"),
    ("artifact",),
    ("sessions.ragged_ports", "sessions.interface"),
    ("compiler.dims", "compiler.tir", "compiler.devices", "compiler.decisions", "compiler.batching"),
    ("options",),
    ("compiler.dtypes", "compiler.constants", "compiler.model"),
    ("compiler.operators",),
    ("compiler.batching",),
    ("compiler.schedules", "frontends"),
    ("compiler.lowering", "compiler.cost", "compiler.graph"),
    ("compiler.ragged",),
    ("compiler.program",),
    ("compiler.codegen",),
    ("compiler.variant", "compiler.observer"),
    ("engines",),
    ("text",),
    ("targets",),
    ("folders",),
    ("pipeline",),
    ("sources", "sessions"),
    ("checks",),
    ("quantization",),
    ("building", "doctor", "inspection"),
    ("cli", "onnx_backend"),
    ("__init__", "__main__"),
)
"""Packages and modules of deploykit. Each may import from rows above its own, and from itself."""

LEVEL = {name: row for row, names in enumerate(LAYERS) for name in names}


def modules() -> dict[str, Path]:
    """The modules by dotted name without `deploykit.`; the package itself is `__init__`."""
    found = {}
    for path in sorted((ROOT / "deploykit").rglob("*.py")):
        parts = path.relative_to(ROOT / "deploykit").with_suffix("").parts
        found[".".join(parts if parts == ("__init__",) else [p for p in parts if p != "__init__"])] = path
    return found


MODULES = modules()


def part_of(module: str) -> str:
    """The entry of `LAYERS` that a module belongs to."""
    return next((name for name in LEVEL if module == name or module.startswith(f"{name}.")), "")


def imported(path: Path, *, for_types: bool = True) -> Iterator[str]:
    """The modules that a file imports, or from which it imports names; with `for_types`, also those for annotations."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not for_types:
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECK" in ast.dump(node.test))
        ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "deploykit":
            package = (node.module or "").removeprefix("deploykit").removeprefix(".")
            for alias in node.names:
                inner = f"{package}.{alias.name}".removeprefix(".")
                yield inner if inner in MODULES else package or "__init__"


def test_every_module_has_a_layer() -> None:
    folders = {"compiler"}
    assert not [module for module in MODULES if not part_of(module) and module not in folders]


@pytest.mark.parametrize("part", sorted(LEVEL))
def test_no_import_runs_upward(part: str) -> None:
    upward = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        if part_of(module) == part
        for other in imported(path)
        if part_of(other) != part and LEVEL[part_of(other)] >= LEVEL[part]
    ]
    assert not upward


def test_shader_languages_are_known_in_one_place() -> None:
    """All other code uses shaders through `ShaderLanguage`. WGSL's reader knows no printer, so every language may use
    it."""
    shaders = "compiler.codegen.shaders"
    reader = f"{shaders}.wgsl.reading."
    languages = [f"{shaders}.{path.name}" for path in (ROOT / "deploykit" / shaders.replace(".", "/")).iterdir()]
    languages = [language for language in languages if language in MODULES]
    assert f"{shaders}.wgsl" in languages
    strangers = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        for other in imported(path)
        for language in languages
        if f"{other}.".startswith(f"{language}.") and not f"{module}.".startswith(f"{language}.")
        if not other.startswith(reader)
    ]
    read = [other for module, path in MODULES.items() if module.startswith(reader) for other in imported(path)]
    assert all(other.startswith(reader) for other in read)
    assert [line for line in strangers if not line.startswith(f"{shaders}.languages imports")] == []


def test_no_circle() -> None:
    arrows = {module: set(imported(path, for_types=False)) - {module} for module, path in MODULES.items()}
    while leaves := {module for module, others in arrows.items() if not others & arrows.keys()}:
        arrows = {module: others for module, others in arrows.items() if module not in leaves}
    assert not sorted(arrows)
