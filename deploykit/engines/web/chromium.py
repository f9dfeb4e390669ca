"""Headless Chromium and a server on this machine for its pages."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from deploykit.errors import ToolchainError

CHROMIUM_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--no-first-run", "--disable-quic", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)

GPU_OPTIONS = ("--enable-unsafe-webgpu",)
"""With these there is WebGPU, on a machine without a GPU in software."""


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def chromium(url: str, *, gpu: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A Chromium that shows a page. It ends with this process, however that ends.

    Raises `ToolchainError` when there is none.
    """
    found = find_chromium()
    if found is None:
        raise ToolchainError("no Chromium found: install one (Debian: `apt-get install chromium`)")
    # Chromium quits when the pipe that it is to be controlled by is closed.
    options = ("--remote-debugging-pipe", *CHROMIUM_OPTIONS, *(GPU_OPTIONS if gpu else ()))
    with tempfile.TemporaryDirectory(prefix="deploykit-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'exec "$@" 3<&0 4>/dev/null', "sh", found, *options, f"--user-data-dir={profile}", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.terminate()
            process.wait()


class FolderHandler(SimpleHTTPRequestHandler):
    """Answers with the files of a folder, modules among them, and says nothing on the terminal."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def log_message(self, *_: Any) -> None:
        """Not on the terminal."""


@contextmanager
def served(handler: Callable[..., FolderHandler]) -> Iterator[str]:
    """The address of a server on this machine whose requests `handler` answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
