"""Runs a page in headless Chromium: the page is served from a folder, and posts its result as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from deploykit.engines.web.chromium import CHROMIUM_OPTIONS, ISOLATED, FolderHandler, chromium, find_chromium, served

__all__ = ["CHROMIUM_OPTIONS", "ISOLATED", "FolderHandler", "find_chromium", "in_chromium", "served"]


def in_chromium(
    folder: Path, page: str, *, seconds: float = 120, headers: Mapping[str, str] | None = None, gpu: bool = False
) -> Any:
    """Run `page`, a path relative to `folder`, and return what it posts.

    With `gpu` the page has WebGPU, in software on a machine without a GPU. Raises `TimeoutError` if the page posts
    nothing within `seconds`, and `ToolchainError` if there is no Chromium.
    """
    posted: Queue[Any] = Queue()

    class Handler(FolderHandler):
        def end_headers(self) -> None:
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            super().end_headers()

        def do_POST(self) -> None:  # noqa: N802
            posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    with served(partial(Handler, directory=str(folder))) as address, chromium(f"{address}/{page}", gpu=gpu):
        try:
            return posted.get(timeout=seconds)
        except Empty:
            raise TimeoutError(f"{page} posted nothing for {seconds} s") from None
