"""Boards as data: the core, the clock and the memories of each, in `data/`, and what a core needs, in `cores.toml`.

`find_board` takes the name of a board that is known here, or the path of a file of the same form: a board of one's own
needs no code."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deploykit.artifact.entries import Entry
from deploykit.errors import UsageError

_HERE = Path(__file__).parent
STARTS = _HERE / "start"
"""Where the files are that cores name as `start`."""


class Region(Entry):
    """A memory: its first address, and its size in bytes."""

    origin: int
    bytes: int


class Emulator(Entry):
    """A machine of QEMU, with its memories."""

    program: str
    machine: str
    options: tuple[str, ...] = ()
    flash: Region
    ram: Region


class Core(Entry):
    """A processor core. `compiler` is the prefix of a GNU toolchain, `flags` are for compiling and linking, and `link`
    for linking, where they win. `start` is a C file that a program for the emulator contains."""

    name: str
    title: str
    compiler: str
    flags: tuple[str, ...]
    link: tuple[str, ...] = ()
    start: str | None = None
    emulator: Emulator | None = None


class Board(Entry):
    """A board, with the memories that a program may use: flash for code and constants, RAM for all else."""

    name: str
    title: str
    core: Core
    clock_hz: int
    flash: Region
    ram: Region


def board_names() -> tuple[str, ...]:
    """The names of the boards that are known here, sorted."""
    return tuple(sorted(path.stem for path in (_HERE / "data").glob("*.toml")))


def find_board(name: str) -> Board:
    """The board called `name`, or that of the file with this path. Raises `UsageError` for one that is not known, and
    for a file that does not describe a board."""
    path = Path(name)
    if path.suffix != ".toml":
        if name not in board_names():
            raise UsageError(
                f"there is no board '{name}': there are {', '.join(board_names())}; or give the path of a .toml file "
                "like theirs"
            )
        path = _HERE / "data" / f"{name}.toml"
    return read_board(path)


def read_board(path: Path) -> Board:
    """The board that a file describes. Raises `UsageError`."""
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the board {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the board {path} is no TOML: {error}") from error
    name = str(fields.get("core"))
    if name not in cores():
        raise UsageError(f"the board {path} has the core '{name}', which is not known: there are {', '.join(cores())}")
    try:
        return Board.model_validate({"name": path.stem, **fields, "core": cores()[name]})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"the board {path} is wrong at '{place}': {first['msg']}") from error


@cache
def cores() -> Mapping[str, Core]:
    """All cores by name."""
    tables: dict[str, Any] = tomllib.loads((_HERE / "cores.toml").read_text(encoding="utf-8"))
    emulators = tables.pop("emulators")
    return {
        name: Core.model_validate({**table, "name": name, "emulator": emulators.get(table.get("emulator"))})
        for name, table in tables.items()
    }
