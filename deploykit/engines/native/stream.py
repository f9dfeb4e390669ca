"""Runs instances of a dynamic model that join while others run (`runtime/batching/stream.h`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import eq
from typing import Any

import numpy as np

from deploykit.artifact.manifest import Manifest
from deploykit.basics.dtypes import logical_dtype
from deploykit.engines import MemoryFull, failure
from deploykit.engines.native import library as native
from deploykit.engines.native.in_process import InProcess, address_of, allocate, fill
from deploykit.engines.native.loaded import Loaded
from deploykit.errors import DeploykitError

_FIRST = 1 << 23
"""Elements of each memory at first, where the bounds allow it. What is not used takes no pages."""

_MOST = 1 << 28
"""Elements up to which memory is enlarged for the sake of speed."""


class Stream(InProcess):
    """A model with memory of its own, for one stream. The methods are named like the functions in C."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded)
        manifest = loaded.manifest
        self._calls_of_stream = native.StreamCalls(self._library)
        self._batch = [dim.name for dim in manifest.dims].index("batch")
        self._tensors = (native.CTensor * len(manifest.inputs))()
        self._outputs_of_rows = (native.CTensor * len(manifest.outputs))()
        self._rows = _rows(manifest)
        self._shapes: Sequence[tuple[int, ...] | None] = [None] * len(manifest.inputs)
        self._ticket = ctypes.c_int32()
        self._reference = ctypes.byref(self._model)
        for index, dim in enumerate(manifest.dims):
            if dim.capacity_of is not None:
                self._raise(index, _FIRST)

    @property
    def most(self) -> int | None:
        """How many instances may run at a time; None: any number."""
        return self._manifest.dims[self._batch].maximum

    @property
    def has_room(self) -> bool:
        """Whether an instance should join now. If not, those that run should finish first."""
        return bool(self._calls_of_stream.has_room(self._reference))

    def submit(self, inputs: Sequence[np.ndarray]) -> int:
        """Let an instance join; returns its ticket. Raises `MemoryFull` where it does not fit beside the others."""
        shapes = [array.shape for array in inputs]
        for tensor, array, code, same in zip(
            self._tensors, inputs, self._codes, map(eq, shapes, self._shapes), strict=True
        ):
            if same:
                tensor.data = address_of(array)
            else:
                fill(tensor, array, code)
        self._shapes = shapes
        if self._model.stream.running == 0:
            self._grow_arena(int(self._library.arena_bytes(self._bound())))
        self._require(self._calls_of_stream.submit(self._reference, self._tensors, ctypes.byref(self._ticket)))
        return self._ticket.value

    def step(self) -> tuple[int, DeploykitError] | None:
        """One flush. Returns the ticket and the error of an instance that failed; the others go on with the next step.

        Raises `MemoryFull`, or another error of the model; no instance is left then."""
        status = self._calls_of_stream.step(self._reference)
        if status == native.DK_ERROR_DATA and self._model.stream.failed >= 0:
            return self._model.stream.failed, failure(status, self._error())
        self._require(status)
        return None

    def take(self) -> tuple[list[int], list[np.ndarray]]:
        """The tickets of the instances that have finished since the last time, and the outputs for a batch of them.

        Raises `MemoryFull`; no instance is left then."""
        count = self._model.stream.finished
        if count == 0:
            return [], []
        tickets = (ctypes.c_int32 * count)()
        results = self._taken(count, tickets) if self._rows is None else self._taken_rows(count, tickets)
        return list(tickets), results

    def _taken(self, count: int, tickets: ctypes.Array[ctypes.c_int32]) -> list[np.ndarray]:
        """Outputs of any size, with more memory as long as one of them asks for it."""
        dims = type(self._model.dims)(*self._model.dims)
        dims[self._batch] = count
        while True:
            outputs, memory, _ = self._outputs(dims)
            status = self._calls_of_stream.take(self._reference, outputs, tickets)
            need = self._model.base.need
            if status != native.DK_ERROR_CAPACITY or need.output < 0:
                self._require(status)
                return self._results(outputs, memory)
            self._room[need.output] = need.bytes

    def _taken_rows(self, count: int, tickets: ctypes.Array[ctypes.c_int32]) -> list[np.ndarray]:
        """Outputs whose sizes follow from the number of instances."""
        results = []
        for tensor, (name, storage, shape) in zip(self._outputs_of_rows, self._rows or (), strict=True):
            result, tensor.data = allocate((count, *shape[1:]) if shape[0] < 0 else shape, storage, name)
            tensor.bytes = result.nbytes
            results.append(result)
        self._require(self._calls_of_stream.take(self._reference, self._outputs_of_rows, tickets))
        return results

    def cancel(self, ticket: int) -> None:
        """Remove an instance."""
        self._calls_of_stream.cancel(self._reference, ticket)

    def grow(self, full: MemoryFull) -> bool:
        """Provide what was missing, while no instance is left. Returns whether the bounds allow more than there is."""
        return full.dim >= 0 and self._raise(full.dim, full.extent)

    def enlarge(self) -> None:
        """Double each memory, within bounds, while no instance is left."""
        for index, dim in enumerate(self._manifest.dims):
            if dim.capacity_of is not None and self._model.dims[index] < _MOST:
                self._raise(index, 2 * self._model.dims[index])

    def close(self) -> None:
        """Do nothing: the threads are those of the whole runs."""

    def _bound(self) -> ctypes.Array[ctypes.c_int64]:
        """The dims of the inputs."""
        dims = (ctypes.c_int64 * len(self._manifest.dims))()
        self._check(self._library.bind(self._reference, self._tensors, dims))
        return dims

    def _raise(self, index: int, extent: int) -> bool:
        """Set a capacity dim as far as its bounds allow; returns whether it has grown."""
        before = int(self._model.dims[index])
        after = max(before, min(extent, self._manifest.dims[index].maximum or extent))
        self._model.dims[index] = after
        return after > before

    def _require(self, status: int) -> None:
        if status == native.DK_OK:
            return
        if status == native.DK_ERROR_CAPACITY:
            need = self._model.base.need
            raise MemoryFull(self._error(), need.dim, need.extent)
        self._check(status)


def _rows(manifest: Manifest) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]] | None:
    """Name, dtype and shape of each output, -1 for the number of instances; None if only a run can tell a shape. The
    trace of a stream is empty."""
    known = {"batch": -1, "traced": 0}
    rows: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    for port in manifest.outputs:
        shape = [extent if isinstance(extent, int) else known.get(extent) for extent in port.shape]
        if None in shape:
            return None
        extents = tuple(extent for extent in shape if extent is not None)
        rows.append((f"output '{port.name}'", logical_dtype(port.dtype).storage, extents))
    return rows
