"""Starts headless Chromium, and a local server for its pages."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from deploykit.basics.scratch import Scratch
from deploykit.errors import ToolchainError

CHROMIUM_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--no-first-run", "--disable-quic", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)

GPU_OPTIONS = ("--enable-unsafe-webgpu",)
"""These enable WebGPU; on a machine without a GPU it runs in software."""

ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
"""Headers that allow a page to share memory between threads."""


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def chromium(url: str, *, gpu: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A Chromium that shows a page. It ends when this process ends, even if that is killed.

    Raises `ToolchainError` if Chromium is not installed.
    """
    found = find_chromium()
    if found is None:
        raise ToolchainError("no Chromium found: install one (Debian: `apt-get install chromium`)")
    # With this option Chromium quits when its control pipe is closed.
    options = ("--remote-debugging-pipe", *CHROMIUM_OPTIONS, *(GPU_OPTIONS if gpu else ()))
    with Scratch(ignore_cleanup_errors=True) as profile:
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
    """Serves the files of a folder, JavaScript modules included, without logging to the terminal."""

    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def served(handler: Callable[..., FolderHandler], port: int = 0) -> Iterator[str]:
    """Run a local server whose requests `handler` answers, on a free port by default; yields its address.

    Raises `OSError` if the port cannot be used."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
