"""ONNX Runtime for arm64: the library of the npm package `onnxruntime-node`, called by `onnxruntime.c` under QEMU."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from bench.arm64.levels import Level
from bench.instructions.counters import RESULT, Counts, counted, counting
from deploykit.basics.toolchain import find_cross_compiler
from deploykit.engines.native.process import read_array
from deploykit.errors import DeploykitError, ToolchainError

PACKAGE = "onnxruntime-node@1.30.0"
_LIBRARY = "libonnxruntime.so.1"
_HOST = Path(__file__).with_name("onnxruntime.c")


class OnnxRuntime:
    """The library in `folder`, which is downloaded if it is not there. Raises `ToolchainError` if that fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not (folder / _LIBRARY).is_file():
            _download(folder)
        link = (f"{folder / _LIBRARY}", f"-Wl,-rpath,{folder.resolve()}")
        self._host = folder / "host"
        compiler = find_cross_compiler("aarch64", "gnu")
        compiler.compile(_HOST, folder / "host.o", "-O2")
        compiler.link_program([folder / "host.o"], self._host, *link)

    def count(
        self, model: Path, inputs: Mapping[str, np.ndarray], level: Level, scratch: Path
    ) -> tuple[dict[str, np.ndarray], Counts]:
        """The outputs of a run, and the instructions that it executes. Raises `DeploykitError` if it fails."""
        graph = onnx.load(model, load_external_data=False).graph
        outputs = [value.name for value in graph.output]
        request = b"".join(_request(inputs[value.name]) for value in graph.input)
        call = [
            *("qemu-aarch64", "-cpu", level.model, "-L", f"{level.root(scratch)}", *counting("counted", scratch)),
            *(f"{self._host}", f"{model}", ",".join(value.name for value in graph.input), ",".join(outputs)),
        ]
        done = subprocess.run(call, input=request, capture_output=True, check=False)
        if done.returncode != 0:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise DeploykitError(words[-1] if words else f"it ends with {done.returncode}")
        return _reply(done.stdout, outputs), counted(scratch / RESULT)


def _download(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise ToolchainError("ONNX Runtime for arm64 is downloaded with npm, which is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    call = [npm, "pack", "--silent", PACKAGE]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"npm cannot download {PACKAGE}: {done.stderr.strip()[-300:]}")
    packed = folder / done.stdout.split()[-1]
    with tarfile.open(packed) as archive:
        entry = next(name for name in archive.getnames() if name.endswith(f"linux/arm64/{_LIBRARY}"))
        found = archive.extractfile(entry)
        assert found is not None
        (folder / _LIBRARY).write_bytes(found.read())
    packed.unlink()


def _request(array: np.ndarray) -> bytes:
    numbers = (helper.np_dtype_to_tensor_dtype(array.dtype), array.ndim, *array.shape, array.nbytes)
    return struct.pack(f"<{len(numbers)}q", *numbers) + array.tobytes()


def _reply(data: bytes, names: Sequence[str]) -> dict[str, np.ndarray]:
    arrays, at = {}, 0
    for name in names:
        (number,) = struct.unpack_from("<q", data, at)
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number))
        arrays[name], at = read_array(data, at + 8, dtype)
    return arrays
