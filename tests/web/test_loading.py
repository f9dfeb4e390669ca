"""Loading over HTTP: progress, and every fault with its typed error while the program goes on."""

from __future__ import annotations

import json
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

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


class Dropping:
    """Breaks the connection `times` times in the middle; knows ranges."""

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
    assert (found["error"], found["known"]) == (error, True)
    assert words in found["message"]
    assert name.partition(".")[0] in found["message"]


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
    assert found["error"] == "NetworkError"
    assert "the connection was lost after" in found["message"]


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


def test_weights_beyond_the_memory_of_webassembly(package: Path, server: Server) -> None:
    def huge(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
        manifest = json.loads(data)
        manifest["peak_memory"]["weights"] = 5 << 30
        whole(handler, json.dumps(manifest).encode())

    server.faults["manifest.json"] = huge
    found = in_node(package, server.url)
    assert found["error"] == "MemoryError"
    assert "the weights" in found["message"]
