"""Chooses between the CPU and the GPUs of this machine by measuring: the device `auto`.

The first run is repeated on each device that the artifact was built for, and later runs are on the fastest. The choice
is remembered for the artifact and the drivers, beside the compiled kernels.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from deploykit.basics.caches import cache_folder
from deploykit.basics.dtypes import DTYPES
from deploykit.engines import KeepingEngine, Memory, no_stream, on_host
from deploykit.engines.lanes import ClosedError
from deploykit.engines.native.held import Held
from deploykit.errors import DeploykitError, DeviceError, ShapeError

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest, PortEntry
    from deploykit.engines import Engine, StreamEngine

AUTO = "auto"

T = TypeVar("T")

_RUNS = 3
"""How many runs of a device are timed, after one that is not. The fastest counts."""

_ENOUGH = 0.5
"""Seconds of runs after which no further run is timed."""


class Auto:
    """The engine of a model for which `starts` gives the engine of each device, by name, the CPU first.

    A model with states runs on the CPU, because repeated runs would change them. A device that fails is not chosen, and
    left for the CPU if it fails later; `where` says what is chosen, and why. A device that was left stays open while it
    keeps values: the CPU takes copies of them, unless they are lost with it."""

    def __init__(self, manifest: Manifest, starts: Mapping[str, Callable[[], Engine]]) -> None:
        self._manifest = manifest
        self._starts = starts
        self._file = _file(manifest)
        self._cpu = next(iter(starts))
        known = {} if manifest.states is not None else _known(self._file)
        name = known.get("device", self._cpu)
        self.where = known.get("reason", "")
        self._decided = manifest.states is not None or "device" in known
        try:
            self._engine = starts[name]()
        except (KeyError, DeploykitError):
            name, self._engine, self._decided = self._cpu, starts[self._cpu](), False
        self._name = name
        self._choosing = threading.RLock()
        self._kept: weakref.WeakSet[Held] = weakref.WeakSet()
        self._left: tuple[str, Engine] | None = None

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        if not self._decided:
            with self._choosing:
                if not self._decided:
                    return self._first(inputs, function)
        return self._on(lambda engine: engine.run(inputs, function))

    def run_kept(
        self, inputs: Sequence[np.ndarray | Held], keep: Collection[int], function: str | None = None
    ) -> list[np.ndarray | Held]:
        """The first run is on the CPU unless the choice is known, and what it keeps is in host memory.

        Raises `DeviceError` for an input that is lost with the device on which it was kept."""
        while self._name != self._cpu:
            engine = self._engine
            try:
                assert isinstance(engine, KeepingEngine)
                results = engine.run_kept(inputs, keep, function)
            except DeviceError as error:
                self._leave(engine, error)
            except ClosedError:
                self._require_left(engine)
            else:
                self._kept.update(value for value in results if isinstance(value, Held))
                return results
        ports = self._manifest.function(function).inputs
        given = [self._copied(port, value) for port, value in zip(ports, inputs, strict=True)]
        return list(self.run(on_host((port.name for port in ports), given), function))

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        return self._on(lambda engine: engine.arena_bytes(dims, function))

    def reset(self, sizes: Mapping[str, int]) -> None:
        self._engine.reset(sizes)

    @property
    def states(self) -> np.ndarray | None:
        return getattr(self._engine, "states", None)

    @property
    def memory(self) -> Memory:
        return self._engine.memory

    def stream(self) -> StreamEngine:
        raise no_stream(self._manifest.name)

    def close(self) -> None:
        self._engine.close()
        if self._left is not None:
            self._left[1].close()

    def _copied(self, port: PortEntry, value: np.ndarray | Held) -> np.ndarray | Held:
        """An input for the CPU: a copy in host memory if the device that was left keeps it."""
        if isinstance(value, np.ndarray) or value not in self._kept:
            return value
        assert self._left is not None
        dtype = list(DTYPES)[value.code]
        if dtype != port.dtype:
            raise ShapeError(f"input '{port.name}': expected {port.dtype}, found {dtype}")
        try:
            return value.read()
        except DeviceError as error:
            device, _ = self._left
            lost = f"input '{port.name}' is lost with {device}, on which it was kept ({error})"
            raise DeviceError(
                f"{lost}: run again from values in host memory; this session goes on on the CPU"
            ) from error

    def _on(self, use: Callable[[Engine], T]) -> T:
        """The result of an engine; of the CPU's if the device fails, perhaps in another thread."""
        while True:
            engine = self._engine
            try:
                return use(engine)
            except DeviceError as error:
                self._leave(engine, error)
            except ClosedError:
                self._require_left(engine)

    def _leave(self, engine: Engine, error: DeviceError) -> None:
        """Go on with the CPU. Raises the error if that is what failed."""
        with self._choosing:
            if engine is not self._engine:
                return
            if self._name == self._cpu:
                raise error
            if self._kept:
                self._left = self._name, engine
            self._engine = self._starts[self._cpu]()
            self.where = f"{self._cpu}: {self._name} fails ({error})"
            self._name = self._cpu
        if self._left is None:
            engine.close()

    def _require_left(self, engine: Engine) -> None:
        """Raises `ClosedError` unless this engine was closed because another one took its place."""
        if engine is self._engine:
            raise ClosedError

    def _first(self, inputs: Sequence[np.ndarray], function: str | None) -> list[np.ndarray]:
        """Run, and choose a device."""
        results = self._on(lambda engine: engine.run(inputs, function))
        self._decide(lambda engine: engine.run(inputs, function))
        self._decided = True
        return results

    def _decide(self, run: Callable[[Engine], object]) -> None:
        """Measure all devices, and go on with the fastest."""
        seconds = {self._cpu: _seconds(lambda: run(self._engine))}
        failed: dict[str, str] = {}
        for name in [name for name in self._starts if name != self._cpu]:
            try:
                engine = self._starts[name]()
            except DeploykitError as error:
                failed[name] = str(error)
                continue
            try:
                seconds[name] = _seconds(lambda engine=engine: run(engine))  # type: ignore[misc]
            except DeploykitError as error:
                failed[name] = str(error)
            if name in seconds and seconds[name] == min(seconds.values()):
                self._engine, engine = engine, self._engine
            engine.close()
        best = self._name = min(seconds, key=lambda name: seconds[name])
        times = [f"{name} {1e3 * seconds[name]:.2f} ms" for name in seconds]
        self.where = f"{best}: {', '.join([*times, *(f'{name} fails ({text})' for name, text in failed.items())])}"
        _remember(self._file, {"device": best, "reason": self.where})


def _seconds(run: Callable[[], object]) -> float:
    run()
    times: list[float] = []
    while len(times) < _RUNS and sum(times) < _ENOUGH:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def _file(manifest: Manifest) -> Path | None:
    """Where the choice is remembered; None if nothing can be."""
    from deploykit.engines.native.adapters import adapters

    folder = cache_folder()
    if folder is None:
        return None
    drivers = [[gpu.name, gpu.driver] for name in manifest.devices for gpu in adapters(name)]
    files = [file.sha256 for file in manifest.files]
    key = hashlib.blake2b(json.dumps([files, drivers]).encode(), digest_size=8).hexdigest()
    return folder / f"{AUTO}-{key}.json"


def _known(file: Path | None) -> dict[str, str]:
    try:
        return dict(json.loads(file.read_text())) if file is not None else {}
    except (OSError, ValueError, TypeError):
        return {}


def _remember(file: Path | None, choice: Mapping[str, str]) -> None:
    if file is not None:
        try:
            file.write_text(json.dumps(choice))
        except OSError:
            return
