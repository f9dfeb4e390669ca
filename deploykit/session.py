"""Running an artifact from Python: `open(folder)`, then `session(x=array)`.

A session loads the artifact's library, grows the arena and the outputs as runs need, and converts between the
arrays of the user and the elements in memory. Sessions are independent of each other; one session serves one thread
at a time.
"""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from deploykit import native_model as native
from deploykit.dtypes import LogicalDtype, from_storage, logical_dtype, to_storage
from deploykit.errors import ArtifactError, ShapeError, UsageError
from deploykit.manifest import Manifest, PortEntry, read_manifest, verify_files
from deploykit.targets.base import find_target

_MOST_RUNS = 64
"""A run is repeated after it has said which memory it lacks; each time names another one."""

_FIRST_GUESS = 4096
"""Bytes given at first to an output whose size only the run can tell."""


def open(folder: str | Path, *, threads: int = 1) -> Session:  # noqa: A001 - called as `deploykit.open`
    """A session of the artifact in `folder`, with parallel loops on `threads` threads.

    Raises `ArtifactError` when the folder holds no artifact, or one that is damaged, and `ToolchainError` when its
    target needs a compiler to run here and there is none.
    """
    return Session(Path(folder), threads=threads)


class Session:
    """A loaded artifact. Call it with the inputs by name; it gives the outputs by name, as new arrays."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, found {threads}")
        self.manifest: Manifest = read_manifest(folder)
        verify_files(folder, self.manifest)
        self._scratch = tempfile.TemporaryDirectory(prefix="deploykit-")
        path = find_target(self.manifest.target).library(folder, Path(self._scratch.name))
        self._library = native.Library(path, self.manifest.prefix)
        self._model: Any = native.model_struct(len(self.manifest.dims))()
        self._arena: np.ndarray | None = None
        self._room = [_FIRST_GUESS] * len(self.manifest.outputs)
        self._weights = self._init(folder)
        self._pool: int | None = None
        if threads > 1:
            self._pool = self._library.start_pool(threads)
            self._model.base.executor = self._library.executor(self._pool)

    def __call__(self, **inputs: ArrayLike) -> dict[str, np.ndarray]:
        """Run the model.

        Raises `ShapeError` when a name, dtype, rank or dim does not fit, and `UsageError` when memory is short.
        """
        return self.run(inputs)

    def run(self, inputs: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """The same for inputs whose names are no Python identifiers."""
        arrays = self._arrays(inputs)
        tensors = (native.CTensor * max(len(arrays), 1))()
        for tensor, array, port in zip(tensors, arrays, self.manifest.inputs, strict=False):
            _fill(tensor, array, logical_dtype(port.dtype))
        dims = (ctypes.c_int64 * max(len(self.manifest.dims), 1))()
        for _ in range(_MOST_RUNS):
            self._check(self._library.bind(ctypes.byref(self._model), tensors, dims))
            self._grow_arena(int(self._library.arena_bytes(dims)))
            outputs, memory = self._outputs(dims)
            status = self._library.run(ctypes.byref(self._model), tensors, outputs)
            if status == native.DK_OK:
                return self._results(outputs, memory)
            self._provide(status)
        raise UsageError(f"the model asks for more memory without end: {self._error()}")

    def peak_bytes(self, dims: Mapping[str, int]) -> int:
        """Bytes of arena that a run with these dims needs, beside weights, inputs and outputs.

        Raises `UsageError` for a missing, unknown or out-of-bounds dim.
        """
        known = {dim.name: dim for dim in self.manifest.dims}
        unknown = sorted(set(dims) - set(known))
        if unknown:
            raise UsageError(f"unknown dim '{unknown[0]}'; the model has {', '.join(known) or 'none'}")
        values = (ctypes.c_int64 * max(len(known), 1))()
        for index, dim in enumerate(known.values()):
            value = dims.get(dim.name, dim.minimum if dim.capacity_of is not None else None)
            if value is None:
                raise UsageError(f"dim '{dim.name}' is missing")
            if value < dim.minimum or (dim.maximum is not None and value > dim.maximum):
                upper = "" if dim.maximum is None else dim.maximum
                raise UsageError(f"dim '{dim.name}' must be in {dim.minimum}..{upper}, found {value}")
            values[index] = value
        return int(self._library.arena_bytes(values))

    def close(self) -> None:
        """End the threads and free the memory. The session cannot be used afterwards."""
        if self._pool is not None:
            self._model.base.executor = None
            self._library.stop_pool(self._pool)
            self._pool = None
        self._scratch.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.close()

    def _init(self, folder: Path) -> object:
        """Give the model its weights; what keeps them alive."""
        size = self.manifest.peak_memory.weights
        address, owner = self._library.embedded_weights(), None
        if address is None:
            owner, address = _map_weights(folder / "weights.bin", size)
        status = self._library.init(ctypes.byref(self._model), address, size, None, 0)
        if status != native.DK_OK:
            raise ArtifactError(f"{folder}: {self._error()}")
        return owner

    def _arrays(self, inputs: Mapping[str, ArrayLike]) -> list[np.ndarray]:
        ports = {port.name: port for port in self.manifest.inputs}
        for name in inputs:
            if name not in ports:
                raise ShapeError(f"there is no input '{name}'; the model has {_listed(ports)}")
        for name in ports:
            if name not in inputs:
                raise ShapeError(f"input '{name}' is missing; the model has {_listed(ports)}")
        return [_stored(port, inputs[name]) for name, port in ports.items()]

    def _grow_arena(self, size: int) -> None:
        if self._arena is not None and size <= self._arena.nbytes:
            return
        self._arena = None
        self._arena = _allocate(size, "intermediate results")
        self._check(self._library.set_arena(ctypes.byref(self._model), self._arena.ctypes.data, self._arena.nbytes))

    def _outputs(self, dims: Any) -> tuple[Any, list[np.ndarray]]:
        tensors = (native.CTensor * max(len(self.manifest.outputs), 1))()
        memory: list[np.ndarray] = []
        for index, port in enumerate(self.manifest.outputs):
            tensor = tensors[index]
            self._check(self._library.output_shape(dims, ctypes.c_int32(index), ctypes.byref(tensor)))
            known = all(extent >= 0 for extent in tensor.shape[: tensor.rank])
            size = tensor.bytes if known else self._room[index]
            memory.append(_allocate(size, f"output '{port.name}'"))
            tensor.data, tensor.bytes = memory[-1].ctypes.data, size
        return tensors, memory

    def _results(self, tensors: Any, memory: list[np.ndarray]) -> dict[str, np.ndarray]:
        results: dict[str, np.ndarray] = {}
        for tensor, data, port in zip(tensors, memory, self.manifest.outputs, strict=False):
            dtype = logical_dtype(port.dtype)
            shape = tuple(tensor.shape[: tensor.rank])
            used = int(np.prod(shape, dtype=np.int64)) * dtype.storage.itemsize
            stored = data[:used] if used >= data.nbytes // 2 else data[:used].copy()
            results[port.name] = from_storage(stored.view(dtype.storage).reshape(shape), dtype)
        return results

    def _provide(self, status: int) -> None:
        """After a run that lacked memory, note how much to give next time; after any other failure, raise."""
        need = self._model.base.need
        if status == native.DK_ERROR_CAPACITY and need.output >= 0:
            self._room[need.output] = need.bytes
        elif status == native.DK_ERROR_CAPACITY and need.dim >= 0:
            self._model.dims[need.dim] = need.extent
        else:
            self._check(status)

    def _error(self) -> str:
        return bytes(self._model.base.error).decode("utf-8", "replace")

    def _check(self, status: int) -> None:
        if status == native.DK_OK:
            return
        if status in (native.DK_ERROR_SHAPE, native.DK_ERROR_DTYPE, native.DK_ERROR_DATA):
            raise ShapeError(self._error())
        raise UsageError(self._error())


def _listed(ports: Mapping[str, PortEntry]) -> str:
    return ", ".join(f"'{name}'" for name in ports) or "no inputs"


def _stored(port: PortEntry, value: ArrayLike) -> np.ndarray:
    """The elements of one input as they lie in memory, after checks of dtype and rank."""
    dtype = logical_dtype(port.dtype)
    array = value if isinstance(value, np.ndarray | np.generic) else _from_python(port, value, dtype)
    array = np.asarray(array)
    if array.dtype.newbyteorder("=") != dtype.array:
        raise ShapeError(f"input '{port.name}': expected dtype {dtype.array}, found {array.dtype}; convert it first")
    if array.ndim != len(port.shape):
        shape = ", ".join(map(str, port.shape))
        raise ShapeError(f"input '{port.name}': expected rank {len(port.shape)} [{shape}], found shape {array.shape}")
    return to_storage(array, dtype)


def _from_python(port: PortEntry, value: ArrayLike, dtype: LogicalDtype) -> np.ndarray:
    """Numbers and nested lists take the input's dtype, if they can without losing their kind."""
    try:
        plain = np.asarray(value)
        if plain.dtype.kind == "f" and dtype.array.kind in "iub":
            raise ShapeError(f"input '{port.name}': expected {dtype.array}, found fractional numbers")
        return plain.astype(dtype.array)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"input '{port.name}': no array of {dtype.array}: {error}") from error


def _fill(tensor: native.CTensor, array: np.ndarray, dtype: LogicalDtype) -> None:
    tensor.data = array.ctypes.data
    tensor.bytes = array.nbytes
    tensor.dtype = dtype.code
    tensor.rank = array.ndim
    tensor.shape[: array.ndim] = array.shape


def _allocate(size: int, what: str) -> np.ndarray:
    try:
        return _aligned_buffer(size)
    except (MemoryError, ValueError) as error:
        raise UsageError(f"{what} would need {size} bytes, which this machine does not give") from error


def _aligned_buffer(size: int) -> np.ndarray:
    """At least `size` uninitialised bytes that start at a multiple of 64; some, as NumPy gives no memory no address."""
    size = max(size, native.ALIGNMENT)
    raw = np.empty(size + native.ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % native.ALIGNMENT
    return raw[start : start + size]


def _map_weights(path: Path, size: int) -> tuple[object, int]:
    """The weights file in memory, shared between sessions, and its address."""
    if size == 0:
        return None, 0
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(mapped, dtype=np.uint8)
    return array, array.ctypes.data
