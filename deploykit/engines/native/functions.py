"""Runs the functions of a model, each with its own engine; all share one block of states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from deploykit.engines import StreamEngine, no_stream, on_host
from deploykit.engines.native.on_gpu import OnGpu
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.engines.native.held import Held


class FunctionEngine(Protocol):
    """One function that is ready to run."""

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the function; returns all outputs, as new arrays."""
        ...

    def arena_bytes(self, dims: Sequence[int]) -> int:
        """Bytes of arena that a run with these dims needs."""
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


class Functions:
    """The engine of a model with one or several functions. `start` makes the engine of one function from its manifest,
    `stream` that of a stream of instances; `finish` is called when all are closed.

    `function` names the function to run; None stands for the only one. `where` says for people what runs, and how,
    where that is not obvious."""

    def __init__(
        self,
        manifest: Manifest,
        start: Callable[[Manifest], FunctionEngine],
        stream: Callable[[Manifest], StreamEngine] | None = None,
        finish: Callable[[], None] = lambda: None,
        where: str = "",
    ) -> None:
        self._finish = finish
        self.where = where
        self._manifest = manifest
        self._stream = stream
        names: list[str | None] = [*(entry.name for entry in manifest.functions)] or [None]
        parts = {name: manifest.function(name) for name in names}
        self._engines = {name: start(part) for name, part in parts.items()}
        self._stateful = [self._engines[name] for name, part in parts.items() if part.states is not None]

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        return self._engines[function].run(inputs)

    def run_kept(
        self, inputs: Sequence[np.ndarray | Held], keep: Collection[int], function: str | None = None
    ) -> list[np.ndarray | Held]:
        engine = self._engines[function]
        if isinstance(engine, OnGpu):
            return engine.run_kept(inputs, keep)
        names = (port.name for port in self._manifest.function(function).inputs)
        return list(engine.run(on_host(names, inputs)))

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        return self._engines[function].arena_bytes(dims)

    def reset(self, sizes: Mapping[str, int]) -> None:
        if not self._stateful:
            raise UsageError("the model has no states")
        block = self._stateful[0].new_state(sizes)
        for engine in self._stateful:
            engine.set_state(block)

    def stream(self) -> StreamEngine:
        if self._stream is None:
            raise no_stream(self._manifest.name)
        return self._stream(self._manifest)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._finish()
