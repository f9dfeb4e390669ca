"""Runs an artifact for the web in headless Chromium, on WebGPU: one browser for all models of a process.

A page (`page.mjs`) requests jobs from a server in this process, and posts the replies. Messages have the form of
`messages`; their headers name the artifact's folder by its path on the server.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np

from deploykit import runtime
from deploykit.artifact.manifest import Manifest
from deploykit.engines import ELSEWHERE, Memory, StreamEngine, no_stream
from deploykit.engines.lanes import Lanes
from deploykit.engines.web.chromium import FolderHandler, chromium, served
from deploykit.engines.web.messages import Read, arena_request, message, read_header, read_outputs, run_request
from deploykit.errors import DeploykitError

_PAGE = (
    b'<!doctype html><meta charset="utf-8"><title>deploykit</title><script type="module" src="/js/page.mjs"></script>'
)

_POLL_SECONDS = 20
"""After this time the server answers a request for a job with none."""

_WATCH_SECONDS = 0.5
"""While waiting for a reply, how often to check that the browser still runs."""

_MOST_SECONDS = 600
"""The longest wait for a reply; no request takes a model this long."""


class InBrowser:
    """The model of an artifact folder, on WebGPU. Threads take turns.

    Raises `ToolchainError` if there is no Chromium."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._manifest = manifest
        self._browser = _browser()
        self._folders = Lanes(lambda: self._browser.add(folder))

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        manifest = self._manifest.function(function)
        read = self._ask(run_request(manifest, inputs, function), inputs)
        return read_outputs(manifest, read_header(read), read)

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        manifest = self._manifest.function(function)
        return int(read_header(self._ask(arena_request(manifest, dims, function)))["bytes"])

    def reset(self, sizes: Mapping[str, int]) -> None:
        read_header(self._ask({"reset": dict(sizes)}))

    @property
    def memory(self) -> Memory:
        return ELSEWHERE

    def stream(self) -> StreamEngine:
        raise no_stream(self._manifest.name)

    def close(self) -> None:
        for folder in self._folders.close():
            if self._browser.lives:
                self._browser.ask(b"".join(message({"folder": folder, "close": True})))
                self._browser.remove(folder)

    def __del__(self) -> None:
        if hasattr(self, "_folders") and self._folders.idle:
            self.close()

    def _ask(self, header: Mapping[str, Any], arrays: Sequence[np.ndarray] = ()) -> Read:
        with self._folders.one() as folder:
            return self._browser.ask(b"".join(message({"folder": folder, **header}, arrays)))


class _Browser:
    """A running Chromium that shows the page, and the server that it talks to."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._folders: dict[str, Path] = {"/js/": runtime.JS_PAGE.parent}
        self._numbers = count()
        self._jobs: Queue[bytes] = Queue()
        self._replies: Queue[bytes] = Queue()
        self._turn = threading.Lock()
        self._open = ExitStack()
        address = self._open.enter_context(served(partial(_Handler, self)))
        self._process = self._open.enter_context(chromium(f"{address}/", gpu=True))
        atexit.register(self.end)

    @property
    def lives(self) -> bool:
        return os.getpid() == self._owner and self._process.poll() is None

    def add(self, folder: Path) -> str:
        """Serve a folder; returns its path on the server."""
        path = f"/artifacts/{next(self._numbers)}/"
        self._folders[path] = folder.resolve()
        return path

    def remove(self, path: str) -> None:
        del self._folders[path]

    def ask(self, job: bytes) -> Read:
        """Send a message and return the reply. Raises `DeploykitError` if there is none."""
        with self._turn:
            self._jobs.put(job)
            for _ in range(int(_MOST_SECONDS / _WATCH_SECONDS)):
                try:
                    return BytesIO(self._replies.get(timeout=_WATCH_SECONDS)).read
                except Empty:
                    if not self.lives:
                        break
            self.end()
        raise DeploykitError("Chromium ended, or did not answer")

    def end(self) -> None:
        if os.getpid() == self._owner:
            self._open.close()

    # Called by the server

    def path_of(self, url: str) -> str | None:
        """The file behind a URL."""
        for prefix, folder in self._folders.items():
            if url.startswith(prefix):
                return str(folder / url.removeprefix(prefix).partition("?")[0])
        return None

    def next_job(self) -> bytes | None:
        try:
            return self._jobs.get(timeout=_POLL_SECONDS)
        except Empty:
            return None

    def reply(self, data: bytes) -> None:
        self._replies.put(data)


class _Handler(FolderHandler):
    def __init__(self, browser: _Browser, *arguments: Any) -> None:
        self._browser = browser
        super().__init__(*arguments)

    def translate_path(self, path: str) -> str:
        return self._browser.path_of(path) or os.devnull

    def do_GET(self) -> None:  # noqa: N802
        if self.path == "/":
            self._answer(_PAGE, "text/html")
        elif self.path == "/job":
            self._answer(self._browser.next_job(), "application/octet-stream")
        else:
            super().do_GET()

    def do_POST(self) -> None:  # noqa: N802
        self._browser.reply(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(None, "")

    def _answer(self, body: bytes | None, kind: str) -> None:
        self.send_response(204 if body is None else 200)
        if body is not None:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body or b"")


_started: list[_Browser] = []
_starting = threading.Lock()


def _browser() -> _Browser:
    """The browser of this process; a new one if there is none or it has ended."""
    with _starting:
        if not _started or not _started[-1].lives:
            _started[:] = [_Browser()]
        return _started[-1]
