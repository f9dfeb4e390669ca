"""Running an artifact for the web in node: a process that stays for the session, spoken to by `runner.mjs`."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from deploykit import runtime
from deploykit.dtypes import logical_dtype
from deploykit.errors import DeploykitError, ShapeError, ToolchainError, UsageError
from deploykit.manifest import Manifest

_ERRORS: dict[str, type[DeploykitError]] = {"ShapeError": ShapeError, "MemoryError": UsageError}

_STOP_SECONDS = 5


class Node:
    """The model of an artifact folder, in node. Raises `ToolchainError` when there is no node."""

    def __init__(self, folder: Path, manifest: Manifest, threads: int) -> None:
        self._manifest = manifest
        node = find_node()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [node, *_options(node), str(runtime.JS_RUNNER), str(folder.resolve()), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
        )

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        pairs = zip(inputs, self._manifest.inputs, strict=True)
        headers = [{"dtype": port.dtype, "shape": array.shape, "bytes": array.nbytes} for array, port in pairs]
        reply = self._call({"inputs": headers}, inputs)
        outputs = []
        for header, port in zip(reply["outputs"], self._manifest.outputs, strict=True):
            storage = logical_dtype(port.dtype).storage
            data = self._read(header["bytes"])
            outputs.append(np.frombuffer(data, storage, prod(header["shape"])).reshape(header["shape"]).copy())
        return outputs

    def arena_bytes(self, dims: Sequence[int]) -> int:
        names = [dim.name for dim in self._manifest.dims]
        return int(self._call({"dims": dict(zip(names, dims, strict=True))}, ())["bytes"])

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _call(self, header: dict[str, Any], arrays: Sequence[np.ndarray]) -> Any:
        """The header of the reply. Raises what the model raised there."""
        text = json.dumps(header).encode()
        assert self._process.stdin is not None
        try:
            for part in (struct.pack("<I", len(text)), text, *(array.tobytes() for array in arrays)):
                self._process.stdin.write(part)
            self._process.stdin.flush()
        except OSError:
            self._fail()
        (length,) = struct.unpack("<I", self._read(4))
        reply = json.loads(self._read(length))
        if "error" in reply:
            raise _ERRORS.get(reply["error"], DeploykitError)(reply["message"])
        return reply

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(count)
        if len(data) < count:
            self._fail()
        return data

    def _fail(self) -> None:
        """Raises `DeploykitError` with what node said."""
        self._process.wait()
        self._words.seek(0)
        words = self._words.read().decode("utf-8", "replace").strip()
        raise DeploykitError(f"the model '{self._manifest.name}' is faulty:\n{words or 'node ended'}")


def find_node() -> str:
    """The path of node. Raises `ToolchainError` when there is none."""
    found = shutil.which("node")
    if found is None:
        raise ToolchainError(
            "to run an artifact for the web here, install node 18 or later (Debian: `apt-get install nodejs`)"
        )
    return found


@cache
def _options(node: str) -> list[str]:
    """What node is to be asked for relaxed SIMD with, which browsers have without being asked."""
    option = "--experimental-wasm-relaxed-simd"
    known = subprocess.run([node, option, "--version"], capture_output=True, check=False)
    return [option] if known.returncode == 0 else []
