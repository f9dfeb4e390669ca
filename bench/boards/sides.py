"""A way to run a model on a microcontroller, as C: what `main.c` measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Side:
    """C files that define the functions of `side.h`, options to compile them with, and libraries to link."""

    sources: Sequence[Path]
    options: Sequence[str] = ()
    libraries: Sequence[Path] = ()
