"""Runs a model on a GPU of this machine, in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.artifact.devices import ON_GPU
from deploykit.artifact.manifest import Manifest
from deploykit.engines import foreign
from deploykit.engines.native import library as native
from deploykit.engines.native.gpu import Gpu, GpuOptions
from deploykit.engines.native.held import ON_DEVICE, Buffer, Held
from deploykit.engines.native.in_process import MOST_RUNS, InProcess, fill
from deploykit.engines.native.loaded import Loaded, map_weights
from deploykit.errors import DeploykitError, DeviceError


class OnGpu(InProcess):
    """A function of a model whose kernels run on `gpu`; those that a GPU cannot run are on the CPU. For the other
    arguments see `Loaded`."""

    def __init__(self, path: Path, folder: Path, manifest: Manifest, threads: int, gpu: Gpu) -> None:
        self._gpu = gpu
        super().__init__(Loaded(path, folder, _of_gpu(manifest), threads, first_weight=gpu.first_weight))
        self._model.driver = gpu.address
        self._resident = self._library.table("resident", len(manifest.inputs) + len(manifest.outputs))

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        with self._gpu.turn():
            return super().run(inputs)

    def run_kept(self, inputs: Sequence[np.ndarray | Held], keep: Collection[int]) -> list[np.ndarray | Held]:
        """Run with inputs that stay on the device, and leave the outputs with the indices `keep` there. What the CPU
        uses, too, is in its memory instead.

        Raises what `run` raises, and `UsageError` for a value of another device."""
        given = [self._given(index, value) for index, value in enumerate(inputs)]
        with self._gpu.turn():
            room, dims = list(self._room), list(self._model.dims)
            try:
                return self._kept(given, keep)
            except DeploykitError:
                self._room, self._model.dims[:] = room, dims
                raise

    def _given(self, index: int, value: np.ndarray | Held) -> np.ndarray | Held:
        """An input as the run takes it. One with a wrong dtype is left for the run to refuse."""
        if isinstance(value, Held):
            if value.gpu is not self._gpu:
                raise foreign(self._manifest.inputs[index].name)
            if not self._resident[index] and value.code == self._codes[index]:
                return value.read()
        return value

    def _kept(self, given: Sequence[np.ndarray | Held], keep: Collection[int]) -> list[np.ndarray | Held]:
        """Run, and repeat with more memory as long as the run asks for it."""
        tensors = (native.CTensor * max(len(given), 1))()
        places = (ctypes.c_int32 * max(len(self._resident), 1))()
        stay = [index for index in keep if self._resident[len(given) + index]]
        for index, value in enumerate(given):
            if isinstance(value, Held):
                value.describe(tensors[index])
                places[index] = value.number
            else:
                fill(tensors[index], value, self._codes[index])
        dims = (ctypes.c_int64 * max(len(self._manifest.dims), 1))()
        for _ in range(MOST_RUNS):
            self._check(self._library.bind(ctypes.byref(self._model), tensors, dims))
            outputs, memory, _ = self._outputs(dims, stay)
            buffers = {index: Buffer(self._gpu, outputs[index].bytes) for index in stay}
            for index, buffer in buffers.items():
                outputs[index].data = ON_DEVICE
                places[len(given) + index] = buffer.number
            with self._gpu.binding(places):
                status = self._library.run(ctypes.byref(self._model), tensors, outputs)
            if status == native.DK_OK:
                return self._all_results(outputs, memory, buffers)
            self._provide(status)
        raise self._endless()

    def _all_results(
        self, tensors: Any, memory: Sequence[np.ndarray], buffers: Mapping[int, Buffer]
    ) -> list[np.ndarray | Held]:
        results: list[np.ndarray | Held] = []
        for index, (port, data) in enumerate(zip(self._manifest.outputs, memory, strict=True)):
            tensor = tensors[index]
            if index in buffers:
                dtype, shape = self._described(tensor, port)
                results.append(Held(buffers[index], shape, dtype, tensor.dtype))
            else:
                results.append(self._result(tensor, data, port))
        return results

    def _make_room(self, dims: Any) -> None:
        """The driver provides the arena; where the host needs one, too, the run asks for it."""

    def _provide(self, status: int) -> None:
        need = self._model.base.need
        if status == native.DK_ERROR_ARENA:
            self._grow_arena(int(need.bytes))
        elif status == native.DK_ERROR_CAPACITY and need.output < 0 and need.dim < 0:
            raise DeviceError(self._error())  # the GPU cannot bind so large a tensor
        else:
            super()._provide(status)

    def new_state(self, sizes: Mapping[str, int]) -> np.ndarray:
        block = super().new_state(sizes)
        with self._gpu.turn():
            self._gpu.clear_states(block.nbytes)
        return block


def open_gpu(path: Path, folder: Path, manifest: Manifest, driver: str, options: GpuOptions) -> Gpu:
    """Open a device with the kernels in the library at `path`, and copy the weights to it. Raises `DeviceError`."""
    handle = native.load(path)
    gpu = Gpu(handle, manifest.prefix, driver, folder, options)
    try:
        if gpu.weights_bytes:
            owner, address = map_weights(folder / "weights.bin", gpu.first_weight + gpu.weights_bytes)
            gpu.load(address + gpu.first_weight)
            del owner
    except BaseException:
        gpu.close()
        raise
    return gpu


def _of_gpu(manifest: Manifest) -> Manifest:
    """The manifest with the prefix of the functions for GPUs."""
    shared = manifest.shared_prefix or manifest.prefix
    own = manifest.prefix.removeprefix(shared)
    prefixes = {"prefix": f"{shared}{ON_GPU}{own}"} | ({"shared_prefix": f"{shared}{ON_GPU}"} if own else {})
    return manifest.model_copy(update=prefixes)
