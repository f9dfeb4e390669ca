"""A page in headless Chromium: served from a folder, it posts its result as JSON to `/result`."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
"""Headers with which a page may share memory between threads."""

CHROMIUM_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--no-first-run", "--disable-quic", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


def in_chromium(
    folder: Path, page: str, *, seconds: float = 120, headers: Mapping[str, str] | None = None, gpu: bool = False
) -> Any:
    """What `page`, relative to `folder`, posts; with `gpu`, it has WebGPU, on a machine without one in software.

    Raises `TimeoutError` when it posts nothing for so long.
    """
    chromium = find_chromium()
    if chromium is None:
        raise FileNotFoundError("no Chromium found: install one (Debian: `apt-get install chromium`)")
    posted: Queue[Any] = Queue()

    class Handler(FolderHandler):
        def end_headers(self) -> None:
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            super().end_headers()

        def do_POST(self) -> None:
            posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    with (
        served(partial(Handler, directory=str(folder))) as address,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
    ):
        options = (*CHROMIUM_OPTIONS, "--enable-unsafe-webgpu") if gpu else CHROMIUM_OPTIONS
        call = [chromium, *options, f"--user-data-dir={profile}", f"{address}/{page}"]
        process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return posted.get(timeout=seconds)
        except Empty:
            raise TimeoutError(f"{page} posted nothing for {seconds} s") from None
        finally:
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
