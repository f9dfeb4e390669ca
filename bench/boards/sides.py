"""A way to run a model on a microcontroller, as C: what `main.c` measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import onnx

from deploykit.targets.embedded.boards import Board


@dataclass(frozen=True)
class Side:
    """C files that define the functions of `side.h`, options to compile them with, and libraries to link. It may take
    pictures with the channels last."""

    sources: Sequence[Path]
    options: Sequence[str] = ()
    libraries: Sequence[Path] = ()
    channels_last: bool = False


class Runner(Protocol):
    """Makes sides of models."""

    def missing(self, board: Board, model: onnx.ModelProto) -> str | None:
        """Why it does not run a model on a board, or `None`."""
        ...

    def side(self, board: Board, model: onnx.ModelProto, folder: Path) -> Side:
        """The side of a model on a board, whose files are made in `folder`. Raises `DeploykitError` if it cannot."""
        ...
