"""Projects of web developers that depend on a package: how they are made and served, and what their pages compute."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from bench.browser import FolderHandler, served
from tests.apps.devtools import chromium
from tests.web.tools import ENVIRONMENT, npm

PROGRAM = Path(__file__).with_name("project.mjs")
PAGE = '<!doctype html><script type="module" src="./src/main.js"></script>'
ADDRESS = re.compile(r"http://(?:localhost|127\.0\.0\.1):\d+")


def free_port() -> str:
    """A port that nobody uses, for servers that choose none themselves."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def packed(package: Path, into: Path) -> Path:
    """The file that `npm pack` makes of a package."""
    into.mkdir()
    return into / npm("pack", "--pack-destination", str(into), "--silent", folder=package).strip()


def project(folder: Path, dependency: Path) -> Path:
    """A project that depends on a package, a file of npm or a folder, and has nothing else."""
    (folder / "src").mkdir(parents=True)
    (folder / "package.json").write_text('{ "private": true, "type": "module" }')
    (folder / "index.html").write_text(PAGE)
    shutil.copyfile(PROGRAM, folder / "src" / "main.js")
    npm("install", str(dependency), folder=folder)
    return folder


@contextmanager
def serving(*call: str, folder: Path) -> Iterator[str]:
    """Run a server that prints its address; yields the address."""
    process = subprocess.Popen(
        call,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = ""
    try:
        while not (found := ADDRESS.search(said)):
            line = process.stdout.readline()
            assert line, said
            said += line
        yield found[0]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        process.stdout.close()


@contextmanager
def hosted(folder: Path, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """Serve a folder with these headers; yields the address."""

    class Handler(FolderHandler):
        def end_headers(self) -> None:
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            super().end_headers()

    with served(partial(Handler, directory=str(folder))) as address:
        yield address


def found_in(address: str) -> dict[str, Any]:
    """What the page of a project computes."""
    with chromium() as page:
        page.call("Page.navigate", url=address)
        page.wait("typeof globalThis.found !== 'undefined'")
        found: dict[str, Any] = page.evaluate("globalThis.found")
        return found


def require_right(found: Mapping[str, Any], model: onnx.ModelProto) -> None:
    """Compare with the results of the reference."""
    assert "error" not in found, found["error"]
    x = np.sin(np.arange(60)).astype(np.float32).reshape(1, 3, 1, 20)
    expected, moved = ReferenceEvaluator(model).run(None, {"x": x, "shift": np.array([21])})
    np.testing.assert_allclose([found["y"]], expected, rtol=1e-4, atol=1e-6)
    assert found["moved"] == moved[0]
