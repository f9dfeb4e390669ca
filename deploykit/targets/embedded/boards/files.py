"""The files of an artifact for a board."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.errors import ToolchainError
from deploykit.targets import answers
from deploykit.targets.embedded.boards import Board
from deploykit.targets.embedded.boards.footprint import BOARD
from deploykit.targets.embedded.boards.image import (
    PICOLIBC,
    SEMIHOSTING,
    compiler_for,
    launcher,
    memory_of,
    start_of,
)
from deploykit.targets.embedded.boards.measuring import Measured, measure
from deploykit.targets.templates import render

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program

_TARGET = "deploykit.targets.embedded"
_TEMPLATES = ("board.mk", "board.cmake")
START = "example/start.c"
"""The file that starts a core."""


def board_files(
    program: Program, board: Board, folder: Path, place: Path, view: Mapping[str, Any], *, tools: bool
) -> list[str]:
    """Write the files for a board into `folder`; the sources are in `place`, and `view` is that of their templates.
    With `tools`, its compiler and flags are among them. Returns their names.

    Raises `UsageError` if the model does not fit the board."""
    from deploykit.targets.embedded.boards.fit import footprint

    structs = {f"{function['prefix']}_model": "model.h" for function in view["functions"]}
    if kinds := [kind for kind in answers.KINDS if view[kind]]:
        structs = {f"{view['prefix']}_session": f"model_{kinds[0]}.h"}
    sources = {place / name: view["optimized"].get(name, view["usual"]) for name in view["sources"]}
    try:
        measured: Measured | str = measure(compiler_for(board.core), place, sources, view["shared"], structs)
    except ToolchainError as error:
        measured = str(error).splitlines()[-1]
    constants = {"weights": view["weights_bytes"]}
    if "tokenizer.c" in view["sources"]:
        constants["tokenizer"] = view["texts"]["tables_bytes"]
    found = footprint(program, board, constants, measured, shares_code=view["shares_code"])
    (folder / BOARD).write_text(found.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return [*(write_tools(board, folder, view["prefix"]) if tools else ()), BOARD]


def write_tools(board: Board, folder: Path, prefix: str | None = None) -> list[str]:
    """Write the compiler and the flags for a board as files for make and CMake; with `prefix`, that of a single model,
    its example can be linked for the memories of the board. Returns their names."""
    emulator = board.core.emulator
    memory, starts = emulator or board, start_of(board.core)
    values = {
        "board": board,
        "specs": (*PICOLIBC, *SEMIHOSTING),
        "emulated": memory_of(memory.flash, memory.ram),
        "flashed": memory_of(board.flash, board.ram),
        "start": START if starts else None,
        "launcher": None if emulator is None else launcher(emulator),
        "prefix": prefix,
    }
    for name in _TEMPLATES:
        (folder / name).write_text(render(_TARGET, name, values), encoding="utf-8")
    for start in starts:
        (folder / START).parent.mkdir(exist_ok=True)
        shutil.copyfile(start, folder / START)
    return [*_TEMPLATES, *(START for _ in starts)]
