"""Runs an artifact for the web in node: `runner.mjs`, in a process that lives as long as the session."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from deploykit import runtime
from deploykit.artifact.manifest import Manifest
from deploykit.engines import ELSEWHERE, Memory, StreamEngine, no_stream
from deploykit.engines.lanes import Lanes
from deploykit.engines.web.messages import Read, arena_request, message, read_header, read_outputs, run_request
from deploykit.errors import DeploykitError, ToolchainError

_STOP_SECONDS = 5

T = TypeVar("T")


@dataclass(frozen=True)
class _Node:
    """A running node. `words` is the file that it writes errors to."""

    process: subprocess.Popen[bytes]
    words: IO[bytes]

    def ask(self, header: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        try:
            for part in message(header, arrays):
                self.process.stdin.write(part)
            self.process.stdin.flush()
        except OSError:
            self._fail()

    def read(self, count: int) -> bytes:
        """The next bytes of the reply."""
        assert self.process.stdout is not None
        data = self.process.stdout.read(count)
        if len(data) < count:
            self._fail()
        return data

    def stop(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _fail(self) -> None:
        """Raise `DeploykitError` with the error output."""
        self.process.wait()
        self.words.seek(0)
        words = self.words.read().decode("utf-8", "replace").strip()
        raise DeploykitError(f"the model is faulty:\n{words or 'node ended'}")


class InNode:
    """The model of an artifact folder, in node. Threads take turns. Raises `ToolchainError` if node is not
    installed."""

    def __init__(self, folder: Path, manifest: Manifest, threads: int) -> None:
        self._manifest = manifest
        self._command = [str(runtime.JS_RUNNER), str(folder.resolve()), str(threads)]
        self._nodes = Lanes(self._start)

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        manifest = self._manifest.function(function)
        return self._ask(
            run_request(manifest, inputs, function), lambda reply, read: read_outputs(manifest, reply, read), inputs
        )

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        request = arena_request(self._manifest.function(function), dims, function)
        return self._ask(request, lambda reply, _: int(reply["bytes"]))

    def reset(self, sizes: Mapping[str, int]) -> None:
        self._ask({"reset": dict(sizes)}, lambda *_: None)

    @property
    def memory(self) -> Memory:
        return ELSEWHERE

    def stream(self) -> StreamEngine:
        raise no_stream(self._manifest.name)

    def close(self) -> None:
        for node in self._nodes.close():
            node.stop()

    def __del__(self) -> None:
        if hasattr(self, "_nodes") and self._nodes.idle:
            self.close()

    def _start(self) -> _Node:
        node = find_node()
        words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        command = [node, *node_options(node), *self._command]
        pipe = subprocess.PIPE
        return _Node(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=words), words)

    def _ask(
        self, header: dict[str, Any], answer: Callable[[dict[str, Any], Read], T], arrays: Sequence[np.ndarray] = ()
    ) -> T:
        """Send a request, and take the answer from the header of the reply and from what follows. Raises the error that
        the model raised in JavaScript. After an interruption the rest of a reply would be taken for the next one: node
        ends then."""
        with self._nodes.one() as node:
            try:
                node.ask(header, arrays)
                return answer(read_header(node.read), node.read)
            except DeploykitError:
                raise
            except BaseException:
                node.process.kill()
                raise


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
