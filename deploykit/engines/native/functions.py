"""Runs the functions of a model for any number of threads; all functions share one block of states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np

from deploykit.engines import Memory, StreamEngine, no_stream, on_host
from deploykit.engines.lanes import Lanes
from deploykit.engines.native.on_gpu import OnGpu
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.engines.native.held import Held


T = TypeVar("T")


class FunctionEngine(Protocol):
    """One function that is ready to run, one run at a time."""

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the function; returns all outputs, as new arrays."""
        ...

    def arena_bytes(self, dims: Sequence[int]) -> int:
        """Bytes of arena that a run with these dims needs."""
        ...

    @property
    def memory(self) -> int:
        """The bytes of arena that it holds in this process."""
        ...

    def new_state(self, sizes: Mapping[str, int]) -> np.ndarray:
        """A new block of states, all zeros; `sizes` gives their sizes by the names of dims."""
        ...

    def set_state(self, block: np.ndarray) -> None:
        """Use this block of states from now on."""
        ...

    def close(self) -> None:
        """Free resources other than memory."""
        ...


_Lane: TypeAlias = Mapping[str | None, FunctionEngine]
"""An engine of each function, by its name."""


class Functions:
    """The engine of a model with one or several functions. `start` makes an engine of one function from its manifest,
    `stream` that of a stream of instances; `finish` is called when all are closed.

    Up to `most` runs go on at the same time, in threads of the callers, each on engines of its own. A model with states
    has one engine of each function: its runs take turns.

    `function` names the function to run; None stands for the only one. `where` says for people what runs, and how,
    where that is not obvious."""

    def __init__(
        self,
        manifest: Manifest,
        start: Callable[[Manifest], FunctionEngine],
        stream: Callable[[Manifest], StreamEngine] | None = None,
        finish: Callable[[], None] = lambda: None,
        where: str = "",
        most: int = 1,
    ) -> None:
        self._finish = finish
        self.where = where
        self._manifest = manifest
        self._start = start
        self._stream = stream
        names: list[str | None] = [*(entry.name for entry in manifest.functions)] or [None]
        self._parts = {name: manifest.function(name) for name in names}
        self._stateful = [name for name, part in self._parts.items() if part.states is not None]
        self._states: np.ndarray | None = None
        self._lanes = Lanes(self._lane, 1 if self._stateful else most)

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        lane = self._lanes.take()
        try:
            return lane[function].run(inputs)
        finally:
            self._lanes.give(lane)

    def run_kept(
        self, inputs: Sequence[np.ndarray | Held], keep: Collection[int], function: str | None = None
    ) -> list[np.ndarray | Held]:
        with self._lanes.one() as lane:
            engine = lane[function]
            if isinstance(engine, OnGpu):
                return engine.run_kept(inputs, keep)
            names = (port.name for port in self._parts[function].inputs)
            return list(engine.run(on_host(names, inputs)))

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        with self._lanes.one() as lane:
            return lane[function].arena_bytes(dims)

    def reset(self, sizes: Mapping[str, int]) -> None:
        if not self._stateful:
            raise UsageError("the model has no states")
        with self._lanes.one() as lane:
            self._states = lane[self._stateful[0]].new_state(sizes)
            self._share_states(lane)

    @property
    def states(self) -> np.ndarray | None:
        """The block of states; None if there is none in memory of this process."""
        with self._lanes.one() as lane:
            return None if any(isinstance(lane[name], OnGpu) for name in self._stateful) else self._states

    @property
    def memory(self) -> Memory:
        lanes = self._lanes.made
        return Memory(
            weights=self._manifest.peak_memory.weights,
            states=0 if self._states is None else self._states.nbytes,
            arenas=sum(engine.memory for lane in lanes for engine in lane.values()),
            lanes=len(lanes),
        )

    def stream(self) -> StreamEngine:
        if self._stream is None:
            raise no_stream(self._manifest.name)
        with self._lanes.one():
            return self._stream(self._manifest)

    def close(self) -> None:
        lanes = self._lanes.close()
        for lane in lanes:
            for engine in lane.values():
                engine.close()
        if lanes:
            self._finish()

    def __del__(self) -> None:
        if hasattr(self, "_lanes") and self._lanes.idle:
            self.close()

    def _lane(self) -> _Lane:
        lane = {name: self._start(part) for name, part in self._parts.items()}
        self._share_states(lane)
        return lane

    def _share_states(self, lane: _Lane) -> None:
        """Give the functions with states the block of states."""
        if self._states is not None:
            for name in self._stateful:
                lane[name].set_state(self._states)


def once(start: Callable[[Manifest], T]) -> Callable[[Manifest], T]:
    """What makes, from the manifest of a function, the same thing every time."""
    made: dict[str, T] = {}

    def found(part: Manifest) -> T:
        if part.prefix not in made:
            made[part.prefix] = start(part)
        return made[part.prefix]

    return found
