"""Runs a model on a GPU of this machine, in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.artifact.manifest import Manifest
from deploykit.engines.native import library as native
from deploykit.engines.native.gpu import ON_GPU, Gpu, GpuOptions
from deploykit.engines.native.in_process import InProcess, map_weights
from deploykit.errors import ArtifactError


class OnGpu(InProcess):
    """A function of a model whose kernels run on `gpu`; those that a GPU cannot run are on the CPU. For the other
    arguments see `InProcess`."""

    def __init__(self, path: Path, folder: Path, manifest: Manifest, threads: int, gpu: Gpu) -> None:
        self._gpu = gpu
        super().__init__(path, folder, _of_gpu(manifest), threads)
        self._model.driver = gpu.address

    def _struct(self, size: int) -> type[ctypes.Structure]:
        states = self._manifest.states is not None
        return native.model_struct(len(self._manifest.dims), states=states, gpu_bytes=size)

    def _init(self, folder: Path) -> object:
        """Initialise the model with the part of the weights that is for GPUs."""
        size = int(self._library.descriptor.weights_bytes)
        owner, address = map_weights(folder / "weights.bin", self._gpu.first_weight + size)
        weights = address + self._gpu.first_weight
        if self._library.init(ctypes.byref(self._model), weights, size, None, 0) != native.DK_OK:
            raise ArtifactError(f"{folder}: {self._error()}")
        return owner

    def _make_room(self, dims: Any) -> None:
        """The driver provides the arena; where the host needs one, too, the run asks for it."""

    def _provide(self, status: int) -> None:
        if status == native.DK_ERROR_ARENA:
            self._grow_arena(int(self._model.base.need.bytes))
        else:
            super()._provide(status)

    def new_state(self, sizes: Mapping[str, int]) -> np.ndarray:
        block = super().new_state(sizes)
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
