"""The server of `deploykit try`: what it answers, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse

import pytest

SERVE = """
import sys
from pathlib import Path
from deploykit.cli.page_server import listening, serve
connection = listening(0)
print(connection.getsockname()[1], flush=True)
serve(Path(sys.argv[1]), "demo.html", connection)
"""
FILES = {
    "demo.html": b"<title>page</title>",
    "model.mjs": b"export {}",
    "worker.js": b"0",
    "model.wasm": b"\0asm",
    "weights/0.bin": bytes(range(256)) * 4096,
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server, which has written nothing to the terminal when it ends."""
    place = tmp_path_factory.mktemp("served")
    (place / "secret.txt").write_text("secret")
    folder = place / "dist"
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "link.txt").symlink_to(place / "secret.txt")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield int(process.stdout.readline())
    assert process.poll() is None
    process.terminate()
    assert process.communicate(timeout=30) == ("", "")


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    """The answer to a request whose path and headers are sent as they are."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("demo.html", "text/html; charset=utf-8"),
        ("model.mjs", "text/javascript; charset=utf-8"),
        ("worker.js", "text/javascript; charset=utf-8"),
        ("model.wasm", "application/wasm"),
        ("weights/0.bin", "application/octet-stream"),
    ],
)
def test_files_have_types_and_headers(served: int, name: str, media_type: str) -> None:
    answer, body = ask(served, f"/{name}")
    assert (answer.status, body) == (200, FILES[name])
    assert answer.headers["Content-Type"] == media_type
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    again, body = ask(served, f"/{name}", **{"If-None-Match": answer.headers["ETag"]})
    assert (again.status, body) == (304, b"")


def test_the_page_is_at_the_root(served: int) -> None:
    answer, _ = ask(served, "/")
    assert (answer.status, answer.headers["Location"]) == (307, "/demo.html")


@pytest.mark.parametrize(
    "path",
    [
        "/%00",
        "/demo.html%00",
        "/../secret.txt",
        "/weights/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%252e%252e/secret.txt",
        "/..%5csecret.txt",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/link.txt",
        "/weights",
        "/weights/",
        "/weights/..",
        "/demo.html/x",
        "/none",
        "/%ff%fe",
        f"/{'x' * 5000}",
    ],
)
def test_what_is_no_file_of_the_folder_is_not_found(served: int, path: str) -> None:
    answer, body = ask(served, path)
    assert (answer.status, body) == (404, b"Not Found")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:{}", "LOCALHOST:1", "[::1]:{}"])
def test_hosts_of_this_machine(served: int, host: str) -> None:
    assert ask(served, "/demo.html", Host=host.format(served))[0].status == 200


@pytest.mark.parametrize(
    "host", ["example.com", "example.com:{}", "localhost.example.com", "127.0.0.1.nip.io", "0.0.0.0", "", "a b"]
)
def test_other_hosts_are_refused(served: int, host: str) -> None:
    answer, body = ask(served, "/demo.html", Host=host.format(served))
    assert (answer.status, body) == (400, b"Invalid host header")
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_a_host_must_be_given_once(served: int) -> None:
    connection = HTTPConnection("127.0.0.1", served, timeout=30)
    connection.putrequest("GET", "/demo.html")
    connection.putheader("Host", "example.com")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


def test_methods(served: int) -> None:
    answer, body = ask(served, "/weights/0.bin", "HEAD")
    assert (answer.status, body) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(FILES["weights/0.bin"])
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
        answer, _ = ask(served, "/demo.html", method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_parts_of_a_file(served: int) -> None:
    data = FILES["weights/0.bin"]
    answer, body = ask(served, "/weights/0.bin", Range="bytes=300-399")
    assert (answer.status, body) == (206, data[300:400])
    assert answer.headers["Content-Range"] == f"bytes 300-399/{len(data)}"
    assert ask(served, "/weights/0.bin", Range=f"bytes={len(data)}-")[0].status == 416


def test_requests_at_the_same_time(served: int) -> None:
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda n: ask(served, ("/weights/0.bin", "/%00")[n % 2]), range(200)))
    assert [answer.status for answer, _ in answers] == [200, 404] * 100
    assert all(body == FILES["weights/0.bin"] for answer, body in answers if answer.status == 200)


def test_a_port_that_is_taken(served: int) -> None:
    from deploykit.cli.page_server import listening

    with pytest.raises(OSError, match="in use"):
        listening(served)
