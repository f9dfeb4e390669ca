"""Runs a model in this process: gives it memory of NumPy arrays."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deploykit.artifact.manifest import PortEntry
from deploykit.basics.dtypes import logical_dtype
from deploykit.engines import failure
from deploykit.engines.native import library as native
from deploykit.engines.native.loaded import Loaded
from deploykit.errors import ArtifactError, DeploykitError, UsageError

MOST_RUNS = 64
"""How often a run is repeated. A run that fails for lack of memory says which memory it needs, and is repeated."""

_FIRST_GUESS = 4096
"""Bytes that an output gets at first if its size is known only during the run."""

_BYTE = np.dtype(np.uint8)
_ALIGNMENT = native.ALIGNMENT

_place = ctypes.addressof
_byte_of: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer

_MOST_CALLS = 64
"""How many calls are kept. When there are more, all are dropped, and those in use are made again."""


@dataclass(frozen=True)
class _Call:
    """What later runs with the same input shapes can reuse: the arguments of the library's `run`, the tensors of the
    inputs, and for each output its tensor, shape, dtype and name."""

    arguments: tuple[Any, ...]
    inputs: Sequence[Any]
    outputs: Sequence[tuple[Any, tuple[int, ...], np.dtype[Any], str]]


class InProcess:
    """One struct of a model with its memory: runs one thing at a time, on kernels that `loaded` chooses.

    Raises what `Loaded.new_model` raises."""

    def __init__(self, loaded: Loaded) -> None:
        manifest = loaded.manifest
        self._manifest = manifest
        self._codes = [logical_dtype(port.dtype).code for port in manifest.inputs]
        self._loaded, self._library = loaded, loaded.library
        self._model: Any = loaded.new_model()
        self._state: np.ndarray | None = None
        chosen = {dim.name for dim in manifest.states.dims} if manifest.states is not None else set()
        self._bounded_by_caller = any(dim.capacity_of and dim.name not in chosen for dim in manifest.dims)
        """Whether there are dims that the caller chooses and that must be raised when a run needs more."""
        self._arena: np.ndarray | None = None
        self._room = [_FIRST_GUESS] * len(manifest.outputs)
        self._calls: dict[tuple[tuple[int, ...], ...], _Call] = {}

    @property
    def level(self) -> int:
        """The index of the running level in the manifest's levels; 0 if there is only one."""
        return int(self._model.base.level)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        shapes = tuple([array.shape for array in inputs])
        call = self._calls.get(shapes)
        return self._first(inputs, shapes) if call is None else self._again(call, inputs)

    def _first(self, inputs: Sequence[np.ndarray], shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
        """Run with new input shapes, or with input shapes that do not determine those of all outputs.

        If the run fails, the capacities that it raised are reset, so that they do not affect later runs.
        """
        room, dims = list(self._room), list(self._model.dims)
        try:
            return self._provided(inputs, shapes)
        except DeploykitError:
            self._room, self._model.dims[:] = room, dims
            raise

    def _provided(self, inputs: Sequence[np.ndarray], shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
        """Run, and repeat with more memory as long as the run asks for it."""
        tensors = (native.CTensor * max(len(inputs), 1))()
        for tensor, array, code in zip(tensors, inputs, self._codes, strict=False):
            fill(tensor, array, code)
        dims = (ctypes.c_int64 * max(len(self._manifest.dims), 1))()
        for _ in range(MOST_RUNS):
            self._check(self._library.bind(ctypes.byref(self._model), tensors, dims))
            self._make_room(dims)
            outputs, memory, known = self._outputs(dims)
            status = self._library.run(ctypes.byref(self._model), tensors, outputs)
            if status == native.DK_OK:
                results = self._results(outputs, memory)
                if known and not self._bounded_by_caller:
                    self._keep(shapes, self._call(inputs, tensors, outputs, results))
                return results
            self._provide(status)
        raise self._endless()

    def _endless(self) -> UsageError:
        return UsageError(f"the model asks for more memory without end: {self._error()}")

    def _call(self, inputs: Sequence[np.ndarray], tensors: Any, outputs: Any, results: Sequence[np.ndarray]) -> _Call:
        """What a successful run leaves for later runs with the same shapes."""
        filled = [
            (tensor, result.shape, result.dtype, f"output '{port.name}'")
            for tensor, result, port in zip(outputs, results, self._manifest.outputs, strict=False)
        ]
        return _Call((ctypes.byref(self._model), tensors, outputs), [tensors[n] for n in range(len(inputs))], filled)

    def _again(self, call: _Call, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        for tensor, array in zip(call.inputs, inputs, strict=True):
            tensor.data = address_of(array)
        results = []
        for tensor, shape, dtype, name in call.outputs:
            result, tensor.data = allocate(shape, dtype, name)
            results.append(result)
        status = self._library.run(*call.arguments)
        if status != native.DK_OK:
            self._check(status)
        return results

    def _keep(self, shapes: tuple[tuple[int, ...], ...], call: _Call) -> None:
        if len(self._calls) >= _MOST_CALLS:
            self._calls.clear()
        self._calls[shapes] = call

    def arena_bytes(self, dims: Sequence[int]) -> int:
        return int(self._library.arena_bytes((ctypes.c_int64 * max(len(dims), 1))(*dims)))

    def new_state(self, sizes: Mapping[str, int]) -> np.ndarray:
        """A new block of states, all zeros; `sizes` gives their sizes by the names of dims."""
        dims = (ctypes.c_int64 * max(len(self._manifest.dims), 1))()
        for index, dim in enumerate(self._manifest.dims):
            dims[index] = sizes.get(dim.name, dim.minimum)
        size = int(self._library.state_bytes(dims))
        block, address = allocate((size,), _BYTE, "the states")
        if self._library.reset_state(dims, address, size) != native.DK_OK:
            raise UsageError(f"'{self._manifest.name}': there are no states of the sizes {dict(sizes)}")
        return block

    def set_state(self, block: np.ndarray) -> None:
        """Use this block of states from now on."""
        self._state = block
        self._calls.clear()
        self._check(self._library.set_state(ctypes.byref(self._model), address_of(block), block.nbytes))

    @property
    def memory(self) -> int:
        """The bytes of the arena as it is now."""
        return 0 if self._arena is None else self._arena.nbytes

    def close(self) -> None:
        """End the threads, which all structs of the function share."""
        self._loaded.close()

    def _make_room(self, dims: Any) -> None:
        """Provide the arena that a run with these dims needs."""
        self._grow_arena(int(self._library.arena_bytes(dims)))

    def _grow_arena(self, size: int) -> None:
        if self._arena is not None and size <= self._arena.nbytes:
            return
        self._arena = None
        self._arena, address = allocate((size,), _BYTE, "intermediate results")
        self._check(self._library.set_arena(ctypes.byref(self._model), address, self._arena.nbytes))

    def _outputs(self, dims: Any, elsewhere: Collection[int] = ()) -> tuple[Any, list[np.ndarray], bool]:
        """The output tensors, the arrays that hold their memory, and whether `dims` determine all their shapes. The
        arrays of the outputs `elsewhere` are empty."""
        tensors = (native.CTensor * max(len(self._manifest.outputs), 1))()
        memory: list[np.ndarray] = []
        all_known = True
        for index, port in enumerate(self._manifest.outputs):
            tensor = tensors[index]
            self._check(self._library.output_shape(dims, ctypes.c_int32(index), ctypes.byref(tensor)))
            known = all(extent >= 0 for extent in tensor.shape[: tensor.rank])
            all_known = all_known and known
            size = tensor.bytes if known else self._room[index]
            array, tensor.data = allocate((0 if index in elsewhere else size,), _BYTE, f"output '{port.name}'")
            memory.append(array)
            tensor.bytes = size
        return tensors, memory, all_known

    def _results(self, tensors: Any, memory: Sequence[np.ndarray]) -> list[np.ndarray]:
        ports = self._manifest.outputs
        return [self._result(tensors[index], data, ports[index]) for index, data in enumerate(memory)]

    def _result(self, tensor: native.CTensor, data: np.ndarray, port: PortEntry) -> np.ndarray:
        """The array of an output whose memory is the bytes of `data`."""
        storage, shape = self._described(tensor, port)
        used = int(np.prod(shape, dtype=np.int64)) * storage.itemsize
        kept = data[:used] if used >= data.nbytes // 2 else data[:used].copy()
        return kept.view(storage).reshape(shape)

    def _described(self, tensor: native.CTensor, port: PortEntry) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The dtype and the shape of an output. Raises `ArtifactError` if it does not fit its port."""
        dtype = logical_dtype(port.dtype)
        if tensor.dtype != dtype.code or tensor.rank != len(port.shape):
            raise ArtifactError(f"output '{port.name}' is not what the manifest describes: build the model again")
        return dtype.storage, tuple(tensor.shape[: tensor.rank])

    def _provide(self, status: int) -> None:
        """If the run lacked memory, note how much to give next time; else raise its error."""
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
        if status != native.DK_OK:
            raise failure(status, self._error())


def fill(tensor: native.CTensor, array: np.ndarray, code: int) -> None:
    """Describe an array as a tensor, in the same memory."""
    tensor.data = address_of(array)
    tensor.bytes = array.nbytes
    tensor.dtype = code
    tensor.rank = array.ndim
    tensor.shape[: array.ndim] = array.shape


def address_of(array: np.ndarray) -> int:
    """The address of the first element. NumPy's own way is several times slower, but works for read-only arrays too."""
    try:
        return _place(_byte_of(array))
    except (TypeError, ValueError):
        address: int = array.__array_interface__["data"][0]
        return address


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> tuple[np.ndarray, int]:
    """An uninitialised array, and its address, which is a multiple of 64 even for an empty array."""
    size = dtype.itemsize * math.prod(shape)
    try:
        raw = np.empty(size + _ALIGNMENT, _BYTE)
    except (MemoryError, ValueError) as error:
        raise UsageError(f"{what} would need {size} bytes, which this machine does not give") from error
    start = address_of(raw)
    offset = -start % _ALIGNMENT
    return np.ndarray(shape, dtype, raw, offset), start + offset
