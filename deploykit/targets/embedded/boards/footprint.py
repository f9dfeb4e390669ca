"""`board.json` in an artifact folder: the board that it is for, and what the model takes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from deploykit.artifact.entries import Entry
from deploykit.errors import ArtifactError
from deploykit.targets.embedded.boards import Board

BOARD = "board.json"


class Footprint(Entry):
    """Bytes that a model takes of the memories of its board, by what they are for. `compiler` is the one that code was
    measured with, empty if it was not. `uncounted` says what else the model takes, and why that is not known."""

    board: Board
    flash: Mapping[str, int]
    ram: Mapping[str, int]
    compiler: str = ""
    uncounted: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Lines for people."""
        return [
            f"Board   {self.board.name}: {self.board.title}, {self.board.core.title}",
            f"        flash {share(self.flash, self.board.flash.bytes)}",
            f"        RAM   {share(self.ram, self.board.ram.bytes)}",
            *(f"        not counted: {what}" for what in self.uncounted),
        ]


def share(parts: Mapping[str, int], room: int) -> str:
    """How much of a memory of `room` bytes is taken, and by what."""
    listed = ", ".join(f"{name} {size:,}" for name, size in parts.items() if size)
    return f"{sum(parts.values()):,} of {room:,} bytes: {listed}"


def read_footprint(folder: Path) -> Footprint | None:
    """What the model in an artifact folder takes of its board; `None` if it is for no board. Raises `ArtifactError`."""
    path = folder / BOARD
    if not path.exists():
        return None
    try:
        return Footprint.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ArtifactError(f"{path} does not describe a board: {error}") from error
