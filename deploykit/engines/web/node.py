"""Runs an artifact for the web in node: `runner.mjs`, in a process that lives as long as the session."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deploykit import runtime
from deploykit.artifact.manifest import Manifest
from deploykit.engines import StreamEngine, no_stream
from deploykit.engines.web.messages import arena_request, message, read_header, read_outputs, run_request
from deploykit.errors import DeploykitError, ToolchainError

_STOP_SECONDS = 5


class InNode:
    """The model of an artifact folder, in node. Raises `ToolchainError` if node is not installed."""

    def __init__(self, folder: Path, manifest: Manifest, threads: int) -> None:
        self._manifest = manifest
        node = find_node()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [node, *node_options(node), str(runtime.JS_RUNNER), str(folder.resolve()), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
        )

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        manifest = self._manifest.function(function)
        reply = self._ask(run_request(manifest, inputs, function), inputs)
        return read_outputs(manifest, reply, self._read)

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        manifest = self._manifest.function(function)
        return int(self._ask(arena_request(manifest, dims, function))["bytes"])

    def reset(self, sizes: Mapping[str, int]) -> None:
        self._ask({"reset": dict(sizes)})

    def stream(self) -> StreamEngine:
        raise no_stream(self._manifest.name)

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _ask(self, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> dict[str, Any]:
        """Send a request and return the header of the reply. Raises the error that the model raised in JavaScript."""
        assert self._process.stdin is not None
        try:
            for part in message(header, arrays):
                self._process.stdin.write(part)
            self._process.stdin.flush()
        except OSError:
            self._fail()
        return read_header(self._read)

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(count)
        if len(data) < count:
            self._fail()
        return data

    def _fail(self) -> None:
        """Raise `DeploykitError` with the error output of node."""
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
def node_options(node: str) -> list[str]:
    """The options that enable relaxed SIMD in this node, if it needs them; browsers need none."""
    option = "--experimental-wasm-relaxed-simd"
    known = subprocess.run([node, option, "--version"], capture_output=True, check=False)
    return [option] if known.returncode == 0 else []
