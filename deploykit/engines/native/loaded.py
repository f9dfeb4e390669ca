"""A function of a model in this process: its library, its weights and its threads, which all its structs share."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.artifact.manifest import Manifest
from deploykit.basics.forks import renew_after_fork
from deploykit.engines.native import library as native
from deploykit.errors import ArtifactError, UsageError


class Loaded:
    """The function that `manifest` describes, in the library at `path`; its weights are in the library or in `folder`.

    If there are kernels for several CPUs, those for `cpu` run, by default the best ones that this CPU supports. The
    structs of a function on a GPU have `first_weight`, the offset of its weights in their file.

    Raises `ArtifactError` if the library or the weights do not fit the manifest, and `UsageError` if `threads` threads
    are not possible.
    """

    def __init__(
        self,
        path: Path,
        folder: Path,
        manifest: Manifest,
        threads: int = 1,
        cpu: str | None = None,
        first_weight: int | None = None,
    ) -> None:
        self.manifest = manifest
        self.library = native.Library(path, manifest.prefix, manifest.shared_prefix, states=manifest.states is not None)
        self._folder, self._cpu, self._threads = folder, cpu, threads
        self._on_gpu = first_weight is not None
        if not self._fits():
            raise ArtifactError(f"{path} is not the library that the manifest of '{manifest.name}' describes")
        self.weights_bytes, self._address, self._owner = self._weights(first_weight)
        self._pool: int | None = None
        if threads > 1:
            self._pool = self.library.start_pool(threads)
        renew_after_fork(self)

    def new_model(self) -> Any:
        """A struct of the model, for one thread at a time.

        Raises `ArtifactError` if the weights do not fit, and `UsageError` if the kernels for the CPU cannot run."""
        model = self._struct()()
        status = self.library.init(ctypes.byref(model), self._address, self.weights_bytes, None, 0)
        if status != native.DK_OK:
            error = bytes(model.base.error).decode("utf-8", "replace")
            kind = UsageError if status == native.DK_ERROR_CPU else ArtifactError
            raise kind(f"{self._folder}: {error}")
        if self._cpu is not None:
            self._choose(model, self._cpu)
        if self._threads > 1:
            if self._pool is None:
                self._pool = self.library.start_pool(self._threads)
            model.base.executor = self.library.executor(self._pool)
        return model

    def close(self) -> None:
        """End the threads. No struct may run afterwards."""
        if self._pool is not None:
            self.library.stop_pool(self._pool)
            self._pool = None

    def renew(self) -> None:
        """Forget the threads, which a forked process does not have."""
        self._pool = None

    def __del__(self) -> None:
        if hasattr(self, "_pool") and not sys.is_finalizing():  # a daemon thread may run
            self.close()

    def _struct(self) -> type[ctypes.Structure]:
        manifest, size = self.manifest, int(self.library.descriptor.model_bytes)
        return native.model_struct(
            len(manifest.dims),
            states=manifest.states is not None,
            dynamic_bytes=size if manifest.dynamic is not None and not self._on_gpu else 0,
            gpu_bytes=size if self._on_gpu else 0,
        )

    def _fits(self) -> bool:
        """Whether the library fits the manifest in everything that memory safety depends on."""
        found, manifest = self.library.descriptor, self.manifest
        counts = (found.input_count, found.output_count, found.dim_count, found.model_bytes)
        size = ctypes.sizeof(self._struct())
        return counts == (len(manifest.inputs), len(manifest.outputs), len(manifest.dims), size)

    def _weights(self, first: int | None) -> tuple[int, int, object]:
        """Bytes and address of the weights, and the object that keeps them in memory."""
        if first is not None:
            size = int(self.library.descriptor.weights_bytes)
            owner, address = map_weights(self._folder / "weights.bin", first + size)
            return size, address + first, owner
        size = self.manifest.peak_memory.weights
        embedded = self.library.embedded_weights()
        if embedded is not None:
            return size, embedded, None
        owner, address = map_weights(self._folder / "weights.bin", size)
        return size, address, owner

    def _choose(self, model: Any, cpu: str) -> None:
        """Run the kernels for a CPU other than the best one."""
        levels = self.manifest.levels
        if cpu not in levels:
            found = f"it has {', '.join(levels)}" if levels else "it is for one CPU"
            raise UsageError(f"'{self.manifest.name}' has no kernels for {cpu}: {found}")
        if levels.index(cpu) < model.base.level:
            raise UsageError(f"this CPU lacks instructions of {cpu}")
        model.base.level = levels.index(cpu)


def map_weights(path: Path, size: int) -> tuple[object, int]:
    """Map the weights file into memory, which sessions share; returns the array and its address."""
    if size == 0:
        return None, 0
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}): build the model again") from error
    array = np.frombuffer(mapped, dtype=np.uint8)
    if array.nbytes < size:
        raise ArtifactError(f"{path} has {array.nbytes} bytes, the manifest says {size}: build the model again")
    return array, int(array.__array_interface__["data"][0])
