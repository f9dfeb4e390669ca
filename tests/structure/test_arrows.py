"""Imports run one way: a package imports only packages in rows above it.

Imports within functions and for type checkers count like others. `test_circles.py` is about single files.
"""

from __future__ import annotations

import pytest

from tests.imports import imports, modules

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
    ("compiler.notes",),
    ("engines",),
    ("text", "language"),
    ("targets",),
    ("folders",),
    ("pipeline",),
    ("sources", "sessions"),
    ("checks",),
    ("quantization",),
    ("building", "doctor", "inspection"),
    ("cli",),
    ("__init__", "__main__"),
    ("onnx_backend",),
)
"""Packages and modules of deploykit. Each may import from rows above its own, and from itself."""

LEVEL = {name: row for row, names in enumerate(LAYERS) for name in names}


def _short(module: str) -> str:
    return "__init__" if module == "deploykit" else module.removeprefix("deploykit.")


MODULES = {_short(module): path for module, path in modules("deploykit").items()}
IMPORTED = {_short(module): [*map(_short, found)] for module, found in imports("deploykit").items()}
"""The modules that each module imports, or from which it imports names."""


def part_of(module: str) -> str:
    """The entry of `LAYERS` that a module belongs to."""
    return next((name for name in LEVEL if module == name or module.startswith(f"{name}.")), "")


def test_every_module_has_a_layer() -> None:
    folders = {"compiler"}
    assert not [module for module in MODULES if not part_of(module) and module not in folders]


@pytest.mark.parametrize("part", sorted(LEVEL))
def test_no_import_runs_upward(part: str) -> None:
    upward = [
        f"{module} imports {other}"
        for module, others in IMPORTED.items()
        if part_of(module) == part
        for other in others
        if part_of(other) != part and LEVEL[part_of(other)] >= LEVEL[part]
    ]
    assert not upward


def test_shader_languages_are_known_in_one_place() -> None:
    """All other code uses shaders through `ShaderLanguage`. WGSL's reader knows no printer, so every language may use
    it."""
    shaders = "compiler.codegen.shaders"
    reader = f"{shaders}.wgsl.reading."
    languages = [f"{shaders}.{path.name}" for path in MODULES[shaders].parent.iterdir()]
    languages = [language for language in languages if language in MODULES]
    assert f"{shaders}.wgsl" in languages
    strangers = [
        f"{module} imports {other}"
        for module, others in IMPORTED.items()
        for other in others
        for language in languages
        if f"{other}.".startswith(f"{language}.") and not f"{module}.".startswith(f"{language}.")
        if not other.startswith(reader)
    ]
    read = [other for module, others in IMPORTED.items() if module.startswith(reader) for other in others]
    assert all(other.startswith(reader) for other in read)
    assert [line for line in strangers if not line.startswith(f"{shaders}.languages imports")] == []
