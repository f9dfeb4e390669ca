"""Writes one project of several models: a folder for each, and files that build them all with one core.

<name>/                       the project of the model alone, in a folder of its prefix
Makefile CMakeLists.txt       build a library of each model, and one of what they share
board.mk board.cmake          for a board
README.md                     how an application uses them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.host.scope import prefix_of
from deploykit.targets.embedded.sources import KERNELS, USUAL, optimized, shared_sources
from deploykit.targets.templates import render

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program
    from deploykit.targets.base import PackageOptions
    from deploykit.targets.embedded.boards import Board

_TARGET = "deploykit.targets.embedded"


def write_together(
    models: Sequence[tuple[Sequence[Program], Mapping[str, bytes], PackageOptions]], board: Board | None, folder: Path
) -> list[str]:
    """Write the files around the folders of models, given as their programs, what was emitted, and their options;
    returns their names."""
    prefixes = [prefix_of(program) for (program,), _, _ in models]
    places: dict[str, str] = {}
    for prefix, ((program,), _, _) in zip(prefixes, models, strict=True):
        for source in shared_sources(program):
            if source.suffix == ".c":
                places.setdefault(source.name, prefix)
    view = {
        "models": prefixes,
        "shared": [f"{prefix}/{name}" for name, prefix in places.items()],
        "board": board,
        "usual": USUAL,
        "optimized": optimized(models[0][2].compiling),
        "kernels": KERNELS,
        "version": models[0][2].version,
    }
    files = {"Makefile": "models.mk", "CMakeLists.txt": "models.cmake", "README.md": "models.md"}
    for name, template in files.items():
        (folder / name).write_text(render(_TARGET, template, view), encoding="utf-8")
    if board is None:
        return list(files)
    from deploykit.targets.embedded.boards.files import write_tools

    return [*files, *write_tools(board, folder)]
