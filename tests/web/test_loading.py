"""Loading over HTTP: progress, and a typed error for every fault, after which the program continues."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Server, in_node

WEIGHTS = "weights/000.bin"
RUN = "model.run({ x: { data: new Float32Array(60), shape: [1, 3, 1, 20] }, shift: new BigInt64Array(1) })"


def whole(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def truncated(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
    whole(handler, data[:-100])


def longer(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
    whole(handler, data + b"more")


def corrupted(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
    whole(handler, data[:50] + bytes([data[50] ^ 1]) + data[51:])


def missing(handler: SimpleHTTPRequestHandler, data: bytes) -> None:  # noqa: ARG001
    handler.send_error(404)


def page(handler: SimpleHTTPRequestHandler, data: bytes) -> None:  # noqa: ARG001
    """Answers as servers of single-page apps do."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html; charset=utf-8")
    handler.end_headers()
    handler.wfile.write(b"<!doctype html><div id=app></div>")


def slow(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
    """Sends the data slowly, in twenty pieces."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    step = -(-len(data) // 20)
    for at in range(0, len(data), step):
        handler.wfile.write(data[at : at + step])
        handler.wfile.flush()
        time.sleep(0.02)


class Silent:
    """Answers `times` requests with the first half of the data and then stays silent until the test ends. Later
    requests get all data."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.count = 0
        self.end = threading.Event()

    def __call__(self, handler: SimpleHTTPRequestHandler, data: bytes) -> None:
        self.count += 1
        if self.count > self.times:
            whole(handler, data)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: len(data) // 2])
        handler.wfile.flush()
        self.end.wait(60)
        handler.close_connection = True


class Dropping:
    """Closes the first `times` connections in the middle of the data. Supports range requests."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.starts: list[int] = []

    def __call__(self, handler: SimpleHTTPRequestHandler, data: bytes) -> None:
        text = handler.headers.get("Range", "bytes=0-")
        start = int(text.removeprefix("bytes=").rstrip("-"))
        self.starts.append(start)
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        if len(self.starts) <= self.times:
            middle = start + (len(data) - start) // 2
            handler.wfile.write(data[start:middle])
            handler.wfile.flush()
            handler.connection.close()
            handler.close_connection = True
        else:
            handler.wfile.write(data[start:])


def test_progress_goes_up_to_all_bytes(package: Path, server: Server) -> None:
    found = in_node(package, server.url, RUN)
    assert found["value"]["y"]["shape"] == [1, 10]
    assert found["progress"] == sorted(found["progress"])
    assert found["progress"][-1] == found["total"]
    assert WEIGHTS in server.asked


@pytest.mark.parametrize(
    ("fault", "name", "error", "words"),
    [
        (truncated, WEIGHTS, "IntegrityError", "ends after"),
        (longer, WEIGHTS, "IntegrityError", "longer than"),
        (corrupted, WEIGHTS, "IntegrityError", "sha256"),
        (corrupted, "model.wasm", "IntegrityError", "sha256"),
        (missing, WEIGHTS, "NetworkError", "HTTP 404"),
        (missing, "manifest.json", "NetworkError", "HTTP 404"),
        (truncated, "manifest.json", "IntegrityError", "no JSON"),
    ],
)
def test_a_bad_file_has_its_error(
    package: Path, server: Server, fault: object, name: str, error: str, words: str
) -> None:
    server.faults[name] = fault  # type: ignore[assignment]
    server.faults["model-relaxed.wasm"] = fault if name == "model.wasm" else whole  # type: ignore[assignment]
    found = in_node(package, server.url)
    assert (found["error"], found["known"], found["alive"]) == (error, True, True)
    assert words in found["message"]
    assert name.partition(".")[0] in found["message"]


@pytest.mark.parametrize("name", ["manifest.json", WEIGHTS])
def test_a_page_in_place_of_a_file(package: Path, server: Server, name: str) -> None:
    server.faults[name] = page
    found = in_node(package, server.url)
    assert (found["error"], found["known"], found["alive"]) == ("NetworkError", True, True)
    assert found["message"].startswith(f"{server.url}{name}: the server answers with an HTML page")
    assert "serve the folder of the package at http://" in found["message"]
    assert server.asked.count(name) == 1, "asked once"


@pytest.mark.parametrize("old", [truncated, longer, corrupted])
def test_a_file_of_another_build_that_the_browser_has(package: Path, server: Server, old: Any) -> None:
    def kept(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
        (whole if handler.headers.get("Cache-Control") == "no-cache" else old)(handler, data)

    server.faults[WEIGHTS] = kept
    found = in_node(package, server.url, RUN)
    assert found["value"]["y"]["shape"] == [1, 10]
    assert server.asked.count(WEIGHTS) == 2
    assert found["progress"][-1] == found["total"]


def test_a_dropped_connection_is_resumed(package: Path, server: Server) -> None:
    dropping = Dropping(2)
    server.faults[WEIGHTS] = dropping
    found = in_node(package, server.url, RUN)
    assert found["value"]["y"]["shape"] == [1, 10]
    assert len(dropping.starts) == 3
    assert dropping.starts == sorted(dropping.starts)
    assert dropping.starts[-1] > 0


def test_a_connection_that_always_drops_is_given_up(package: Path, server: Server) -> None:
    server.faults[WEIGHTS] = Dropping(100)
    found = in_node(package, server.url)
    assert (found["error"], found["alive"]) == ("NetworkError", True)
    assert "the connection was lost after" in found["message"]


def test_a_slow_connection(package: Path, server: Server) -> None:
    server.faults[WEIGHTS] = slow
    found = in_node(package, server.url, RUN)
    assert found["value"]["y"]["shape"] == [1, 10]
    assert len(found["progress"]) > 5
    assert found["progress"] == sorted(found["progress"])


HASTE = "{ const wait = setTimeout; "
HASTE += "globalThis.setTimeout = (f, ms, ...rest) => wait(f, ms === 30_000 ? 300 : ms, ...rest); }"


def test_a_connection_that_falls_silent_is_asked_again(package: Path, server: Server) -> None:
    server.faults[WEIGHTS] = silent = Silent(2)
    found = in_node(package, server.url, RUN, before=HASTE)
    silent.end.set()
    assert found["value"]["y"]["shape"] == [1, 10]
    assert silent.count == 3


def test_a_connection_that_is_always_silent_is_given_up(package: Path, server: Server) -> None:
    server.faults[WEIGHTS] = silent = Silent(100)
    found = in_node(package, server.url, before=HASTE)
    silent.end.set()
    assert (found["error"], found["alive"]) == ("NetworkError", True)


def test_a_server_in_trouble_is_asked_again(package: Path, server: Server) -> None:
    def troubled(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
        if server.asked.count(WEIGHTS) < 3:
            handler.send_error(503)
        else:
            whole(handler, data)

    server.faults[WEIGHTS] = troubled
    assert in_node(package, server.url, RUN)["value"]["y"]["shape"] == [1, 10]


def test_what_is_on_its_way_is_not_waited_for(package: Path, server: Server) -> None:
    server.faults[WEIGHTS] = silent = Silent(100)
    server.faults["model.wasm"] = server.faults["model-relaxed.wasm"] = missing
    found = in_node(package, server.url)
    silent.end.set()
    assert (found["error"], found["alive"]) == ("NetworkError", True)


def test_without_memory_the_weights_are_not_waited_for(package: Path, server: Server) -> None:
    server.faults[WEIGHTS] = silent = Silent(100)
    server.faults["manifest.json"] = of_bytes(1 << 30)
    before = "WebAssembly.Memory.prototype.grow = () => { throw new RangeError('full'); };"
    found = in_node(package, server.url, before=before)
    silent.end.set()
    assert found["error"] == "MemoryError"
    assert "the weights and intermediate results need" in found["message"]


def test_a_tab_in_the_background_where_timers_wait(package: Path, server: Server) -> None:
    before = "{ const wait = setTimeout; globalThis.setTimeout = (f, ms, ...rest) => wait(f, 600_000 + ms, ...rest); }"
    runs = f"(await Promise.all(Array.from({{ length: 20 }}, () => {RUN}))).map((r) => r.y.shape[1])"
    assert in_node(package, server.url, runs, before=before)["value"] == [10] * 20


def test_an_engine_without_webgpu(package: Path, server: Server) -> None:
    found = in_node(package, server.url, "webgpu")
    assert (found["error"], found["known"], found["alive"]) == ("UnsupportedError", True, True)


def test_nobody_there(package: Path) -> None:
    found = in_node(package, "http://127.0.0.1:9/")
    assert found["error"] == "NetworkError"


def test_loading_can_be_aborted(package: Path, server: Server) -> None:
    assert in_node(package, server.url, "abort")["error"] == "AbortError"


def test_an_engine_without_simd(package: Path, server: Server) -> None:
    found = in_node(package, server.url, before="WebAssembly.validate = () => false")
    assert found["error"] == "UnsupportedError"
    assert server.asked == []


def test_an_engine_without_relaxed_simd(package: Path, server: Server) -> None:
    before = "{ const { validate } = WebAssembly; WebAssembly.validate = (b) => !b.includes(0x80) && validate(b); }"
    assert in_node(package, server.url, RUN, before=before)["value"]["y"]["shape"] == [1, 10]
    assert "model.wasm" in server.asked
    assert "model-relaxed.wasm" not in server.asked


FULL = "WebAssembly.Memory.prototype.grow = () => { throw new RangeError('full'); }"


def of_bytes(weights: int) -> Callable[[SimpleHTTPRequestHandler, bytes], None]:
    """Serves a manifest that states this number of bytes of weights."""

    def larger(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
        manifest = json.loads(data)
        manifest["peak_memory"]["weights"] = weights
        next(file for file in manifest["files"] if file["name"] == WEIGHTS)["bytes"] = weights
        whole(handler, json.dumps(manifest).encode())

    return larger


def test_weights_beyond_the_memory_of_webassembly(package: Path, server: Server) -> None:
    server.faults["manifest.json"] = of_bytes(5 << 30)
    found = in_node(package, server.url)
    assert found["error"] == "MemoryError"
    assert "the weights" in found["message"]
