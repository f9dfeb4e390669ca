"""Ways to run an artifact on this machine, all with the interface `Engine`.

`in_process` is for use, `profiled` finds slow steps, `sanitized` finds faults, and `emulated` runs artifacts for
another kind of CPU. The last two run in a `process` of their own. Artifacts for the web run under `web`.

An engine takes and returns arrays of storage dtypes, dense and aligned; `deploykit.sessions.session` converts them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from deploykit.basics.parallel import processors
from deploykit.engines.native import library as native
from deploykit.errors import DataError, DeploykitError, DeviceError, ShapeError, UsageError

if TYPE_CHECKING:
    from deploykit.engines.native.held import Held


class Memory(NamedTuple):
    """The bytes of memory that a session holds in this process.

    Threads that run at the same time have an arena each: `arenas` are the bytes of all, `lanes` is their number. They
    are kept for later runs. The bytes of `weights` are those of a file in memory, which all sessions of all processes
    share. What a GPU holds is not in this process."""

    weights: int
    states: int
    arenas: int
    lanes: int


ELSEWHERE = Memory(0, 0, 0, 0)
"""The memory of a session that runs in another process."""


class Engine(Protocol):
    """A model that is ready to run, for any number of threads: their runs go on at the same time or take turns. If it
    has several functions, `function` names the one to run. Each method raises `ClosedError` after `close`."""

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

    @property
    def memory(self) -> Memory:
        """What it holds in this process."""
        ...

    def stream(self) -> StreamEngine:
        """Begin a stream of instances of a dynamic model. Raises `UsageError` where that is not possible."""
        ...

    def close(self) -> None:
        """Wait for the runs that go on, and free resources other than memory."""
        ...


@runtime_checkable
class KeepingEngine(Protocol):
    """What an engine has, too, whose device may keep values between runs."""

    def run_kept(
        self, inputs: Sequence[np.ndarray | Held], keep: Collection[int], function: str | None = None
    ) -> list[np.ndarray | Held]:
        """Run with inputs that an earlier run left on the device, and leave the outputs with the indices `keep` there.
        They are arrays where no device can hold them.

        Raises what `run` raises, and `UsageError` for an input on the device of another engine."""
        ...


class StreamEngine(Protocol):
    """Instances of a dynamic model that join while others run. They are known by tickets. For one thread at a time."""

    @property
    def most(self) -> int | None:
        """How many instances may run at a time; None: any number."""
        ...

    @property
    def has_room(self) -> bool:
        """Whether an instance should join now. If not, those that run should finish first."""
        ...

    def submit(self, inputs: Sequence[np.ndarray]) -> int:
        """Let an instance join; returns its ticket. Raises `MemoryFull` where it does not fit beside the others."""
        ...

    def step(self) -> tuple[int, DeploykitError] | None:
        """One flush. Returns the ticket and the error of an instance that failed; the others go on with the next step.

        Raises `MemoryFull`, or another error of the model; no instance is left then."""
        ...

    def take(self) -> tuple[list[int], list[np.ndarray]]:
        """The tickets of the instances that have finished since the last time, and the outputs for a batch of them.

        Raises `MemoryFull`; no instance is left then."""
        ...

    def cancel(self, ticket: int) -> None:
        """Remove an instance."""
        ...

    def grow(self, full: MemoryFull) -> bool:
        """Provide what was missing, while no instance is left. Returns whether the bounds allow more than there is."""
        ...

    def enlarge(self) -> None:
        """Double each memory, within bounds, while no instance is left."""
        ...

    def close(self) -> None:
        """Free resources other than memory."""
        ...


class MemoryFull(UsageError):
    """A capacity dim, an index into the dims of the manifest, must be `extent` at least; -1 where no dim would help."""

    def __init__(self, message: str, dim: int, extent: int) -> None:
        super().__init__(message)
        self.dim = dim
        self.extent = extent


def foreign(name: str) -> UsageError:
    """The error for an input that is on another device."""
    return UsageError(f"input '{name}' is on the device of another session: pass its numpy()")


def on_host(names: Iterable[str], inputs: Iterable[np.ndarray | Held]) -> list[np.ndarray]:
    """Inputs for an engine whose device keeps no values. Raises `UsageError` if one is on a device."""
    arrays = []
    for name, value in zip(names, inputs, strict=True):
        if not isinstance(value, np.ndarray):
            raise foreign(name)
        arrays.append(value)
    return arrays


def no_stream(name: str) -> UsageError:
    """The error where instances cannot join a run."""
    return UsageError(f"'{name}' runs whole batches here: only a session in this process takes further instances")


def failure(status: int, text: str) -> DeploykitError:
    """The exception for a C status other than `DK_OK`, with the message `text`."""
    if status == native.DK_ERROR_DATA:
        return DataError(text)
    if status == native.DK_ERROR_DEVICE:
        return DeviceError(text)
    if status in (native.DK_ERROR_SHAPE, native.DK_ERROR_DTYPE):
        return ShapeError(text)
    return UsageError(text)


@dataclass(frozen=True)
class EngineOptions:
    """How to run an artifact. `cpu` chooses among kernels for several CPUs, by default the best. `device` is what an
    artifact runs on: for the web `wasm`, the default, or `webgpu`; for this machine `cpu`, the default, or one of the
    devices that it was built for, such as `vulkan`, or `vulkan:2` for the second adapter, or `auto` for the fastest.
    `callers` is how many runs may go on at the same time, by default as many as this process may use CPUs."""

    threads: int = 1
    cpu: str | None = None
    device: str | None = None
    callers: int | None = None

    @property
    def lanes(self) -> int:
        """How many runs may go on at the same time."""
        return self.callers or processors()
