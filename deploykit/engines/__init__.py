"""Ways to run an artifact on this machine, behind `Engine`: `in_process` for use, `profiled` for finding what is
slow, `sanitized` for finding faults, `emulated` for artifacts of another kind of CPU. The last two are a `process` of
their own.

An engine takes and gives arrays of storage dtypes, dense and aligned; `deploykit.session` converts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deploykit.engines.native import library as native
from deploykit.errors import DataError, DeploykitError, ShapeError, UsageError


class Engine(Protocol):
    """A model that is ready to run. One run at a time; of several functions by its name."""

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        """All outputs, as new arrays. Raises `ShapeError`, and `UsageError` when memory is short."""
        ...

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        """Bytes of arena that a run with these dims needs; `dims` in the order of the manifest."""
        ...

    def reset(self, sizes: Mapping[str, int]) -> None:
        """Make the states anew, all zeros, of these sizes by the names of their dims. Raises `UsageError` for a model
        that has none, and for a size out of its bounds."""
        ...

    def close(self) -> None:
        """Free what is not memory. The engine cannot be used afterwards."""
        ...


def failure(status: int, text: str) -> DeploykitError:
    """The error that stands for a status other than `DK_OK`."""
    if status == native.DK_ERROR_DATA:
        return DataError(text)
    if status in (native.DK_ERROR_SHAPE, native.DK_ERROR_DTYPE):
        return ShapeError(text)
    return UsageError(text)


@dataclass(frozen=True)
class EngineOptions:
    """How to run an artifact here. `cpu`: which kernels of those for several CPUs, by default the best; `device`: of an
    artifact for the web, `wasm`, which is the default, or `webgpu`."""

    threads: int = 1
    cpu: str | None = None
    device: str | None = None
