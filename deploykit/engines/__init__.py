"""Ways to run an artifact on this machine, all with the interface `Engine`.

`in_process` is for use, `profiled` finds slow steps, `sanitized` finds faults, and `emulated` runs artifacts for
another kind of CPU. The last two run in a `process` of their own. Artifacts for the web run under `web`.

An engine takes and returns arrays of storage dtypes, dense and aligned; `deploykit.session` converts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deploykit.engines.native import library as native
from deploykit.errors import DataError, DeploykitError, ShapeError, UsageError


class Engine(Protocol):
    """A model that is ready to run, one run at a time. If it has several functions, `function` names the one to run."""

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        """Run the model; returns all outputs, as new arrays.

        Raises `ShapeError`, and `UsageError` if memory is short."""
        ...

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        """Bytes of arena that a run with these dims needs; `dims` are in the order of the manifest."""
        ...

    def reset(self, sizes: Mapping[str, int]) -> None:
        """Create the states anew, all zeros; `sizes` gives their sizes by the names of dims.

        Raises `UsageError` for a model without states, and for a size out of its bounds."""
        ...

    def close(self) -> None:
        """Free resources other than memory. The engine cannot be used afterwards."""
        ...


def failure(status: int, text: str) -> DeploykitError:
    """The exception for a C status other than `DK_OK`, with the message `text`."""
    if status == native.DK_ERROR_DATA:
        return DataError(text)
    if status in (native.DK_ERROR_SHAPE, native.DK_ERROR_DTYPE):
        return ShapeError(text)
    return UsageError(text)


@dataclass(frozen=True)
class EngineOptions:
    """How to run an artifact. `cpu` chooses among kernels for several CPUs, by default the best. `device` is for
    artifacts for the web: `wasm`, the default, or `webgpu`."""

    threads: int = 1
    cpu: str | None = None
    device: str | None = None
