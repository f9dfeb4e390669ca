"""`hf://` against a server on this machine: what is downloaded, what is continued, and what the user reads."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden

pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """A server with one repository. It breaks off at the byte `most` of a file of weights, if that is set."""

    folder: Path
    address: str = ""
    most: int | None = None
    asked: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    stored = golden("bert")
    write_folder(tmp_path / "repo", stored.config, stored.shapes)
    (tmp_path / "repo" / "pytorch_model.bin").write_bytes(b"pickled")
    hub = Hub(tmp_path / "repo")
    server = Server(hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()


class Server(ThreadingHTTPServer):
    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = hub
        hub.address = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    @property
    def hub(self) -> Hub:
        assert isinstance(self.server, Server)
        return self.server.hub

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        names = sorted(file.name for file in self.hub.folder.iterdir())
        name = path.rpartition("/")[2]
        if path.startswith("/api/models/org/model/tree/"):
            self.send_json(
                [{"type": "file", "path": n, "oid": digest(self.hub, n), "size": size(self.hub, n)} for n in names]
            )
        elif path.startswith("/api/models/org/model"):
            self.send_json({"id": "org/model", "sha": COMMIT, "siblings": [{"rfilename": n} for n in names]})
        elif path.startswith("/org/model/resolve/") and name in names:
            self.send_file(name)
        else:
            self.send(b"{}", {"X-Error-Code": "RepoNotFound"}, status=404)

    def send_file(self, name: str) -> None:
        data = (self.hub.folder / name).read_bytes()
        end = self.hub.most if name.endswith(".safetensors") else None
        headers = {"ETag": f'"{digest(self.hub, name)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.command == "GET":
            self.hub.asked.append(name)
        wanted = self.headers.get("Range")
        if wanted is None:
            self.send(data, headers, end=end)
        else:
            self.hub.ranges.append(wanted)
            first = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            self.send(data[first:], headers, status=206, end=None if end is None else end - first)

    def send_json(self, value: object) -> None:
        self.send(json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, data: bytes, headers: dict[str, str], *, status: int = 200, end: int | None = None) -> None:
        """Send `data`, or break off at `end`."""
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[:end])

    def log_message(self, *_: object) -> None:
        pass


def digest(hub: Hub, name: str) -> str:
    return hashlib.sha1((hub.folder / name).read_bytes(), usedforsecurity=False).hexdigest()


def size(hub: Hub, name: str) -> int:
    return (hub.folder / name).stat().st_size


def build(hub: Hub, tmp_path: Path, source: str, *, address: str | None = None) -> subprocess.CompletedProcess[str]:
    own = {"HF_ENDPOINT": address or hub.address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "deploykit", "build", source, "--stop-after", "import"]
    return subprocess.run(
        command, env=os.environ | own, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.sampled(part=6)
def test_only_what_a_build_reads_is_downloaded_and_only_once(hub: Hub, tmp_path: Path) -> None:
    first = build(hub, tmp_path, "hf://org/model")
    assert first.returncode == 0, first.stderr
    assert sorted(hub.asked) == ["config.json", "model.safetensors"]
    assert build(hub, tmp_path, "hf://org/model").returncode == 0
    assert len(hub.asked) == 2


@pytest.mark.sampled(part=6)
def test_an_interrupted_download_is_continued(hub: Hub, tmp_path: Path) -> None:
    weights = hub.folder / "model.safetensors"
    save_file(load_file(weights), weights, metadata={"text": "x" * (24 << 20)})  # pieces are of some MiB
    hub.most = 15 << 20
    broken = build(hub, tmp_path, "hf://org/model")
    assert broken.returncode == 2, broken.stderr
    assert "hf://org/model cannot be downloaded" in broken.stderr
    hub.most = None
    assert build(hub, tmp_path, "hf://org/model").returncode == 0
    assert any(int(each.removeprefix("bytes=").partition("-")[0]) > 0 for each in hub.ranges)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("hf://org/none", "there is no hf://org/none on the Hub"),
        ("hf://org", "hf://org is no place on the Hub: write hf://org/name"),
        ("hf://org/model/../..", "is no place on the Hub"),
    ],
)
def test_places_that_there_are_not(hub: Hub, tmp_path: Path, source: str, message: str) -> None:
    found = build(hub, tmp_path, source)
    assert found.returncode == 2
    assert message in found.stderr.replace("\n", " ")


def test_no_network(hub: Hub, tmp_path: Path) -> None:
    found = build(hub, tmp_path, "hf://org/model", address="http://127.0.0.1:9")
    assert found.returncode == 2
    assert "is not in the cache, and the Hub cannot be reached" in " ".join(found.stderr.split())
