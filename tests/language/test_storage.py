"""What a page keeps of a language model in Chromium: loads that are interrupted, damaged, without room, and aborted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import deploykit
from bench.browser import FolderHandler, find_chromium, served
from deploykit.sessions.session import Session
from tests.apps.devtools import Page, chromium
from tests.language.models import write_language_model

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

PIECE = 4096
"""Bytes of a file of weights: the small model has many of them."""

LOAD = """(async () => {
  const { load } = await import(new URL('/index.mjs', location));
  const parts = [];
  const onProgress = ({ loaded, total }) => parts.push([loaded, total]);
  try {
    const model = await load({ threads: 1, onProgress, ...%s });
    const { text } = await model.complete([{ role: 'user', content: 'abc' }], { maxTokens: 6 });
    const { cached, cachedReason } = model;
    model.dispose();
    return { text, cached, cachedReason, parts };
  } catch (error) {
    return { error: error.name, message: error.message, parts };
  }
})()"""
"""What a page gets: an answer, or an error."""

REQUIREMENTS = "import(new URL('/index.mjs', location)).then(({ requirements }) => requirements(%s))"


class Server:
    """`asked` are the requests since the last look: names, and the byte from which on. `cut` is a file whose first
    answer is cut in the middle. Without `ranges`, the whole file is sent in any case. `left` is how many files of
    weights the server sends before it goes away."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url, self.online, self.ranges = folder, "", True, True
        self.asked: list[tuple[str, int]] = []
        self.cut = ""
        self.left = 1000

    def looked(self) -> list[tuple[str, int]]:
        """The requests for files of the model, without the manifest and scripts."""
        found = [each for each in self.asked if each[0].endswith((".bin", ".wasm"))]
        self.asked = []
        return found

    def answer(self, handler: SimpleHTTPRequestHandler) -> bool:
        """Answer a request for weights, or let it be answered in the usual way."""
        name = handler.path.removeprefix("/")
        start = int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.asked.append((name, start))
        if name.startswith("weights/"):
            self.left -= 1
        if not self.online or self.left < 0:
            handler.close_connection = True
            handler.connection.close()
            return True
        if not name.startswith("weights/"):
            return False
        data = (self.folder / name).read_bytes()[start if self.ranges else 0 :]
        handler.send_response(206 if start and self.ranges else 200)
        handler.send_header("Content-Length", str(len(data)))
        handler.send_header("Cache-Control", "no-store")
        handler.end_headers()
        if name == self.cut:
            self.cut = ""
            handler.wfile.write(data[: len(data) // 2])
            handler.wfile.flush()
            # The browser hands over what has come before it sees the end.
            time.sleep(0.3)
            handler.connection.close()
            handler.close_connection = True
        else:
            handler.wfile.write(data)
        return True


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("storage")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deploykit.targets.webgpu.SHARD_BYTES", PIECE)
        deploykit.build(write_language_model(place / "model.gguf"), "webgpu", output=place / "web")
    return place / "web"


@pytest.fixture
def server(package: Path) -> Iterator[Server]:
    found = Server(package)

    class Handler(FolderHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(package))

        def do_GET(self) -> None:  # noqa: N802
            if not found.answer(self):
                super().do_GET()

    with served(Handler) as found.url:
        yield found


@pytest.fixture
def page(server: Server) -> Iterator[Page]:
    with chromium() as opened:
        opened.open(f"{server.url}/package.json")
        yield opened


@pytest.fixture
def expected(session: Session) -> str:
    return session.generate([{"role": "user", "content": "abc"}], max_tokens=6).read()


def weights(package: Path) -> list[str]:
    """The files that a page loads for WebAssembly."""
    files = json.loads((package / "manifest.json").read_text())["files"]
    return [file["name"] for file in files if file["name"].startswith(("weights/0", "weights/wasm-"))]


def load(page: Page, options: str = "{}") -> Any:
    return page.evaluate(LOAD % options)


@pytest.mark.parametrize("options", ["{}", "{ worker: true }"])
def test_the_second_load_fetches_nothing(
    page: Page, server: Server, package: Path, expected: str, options: str
) -> None:
    first = load(page, options)
    asked = server.looked()
    assert {(name, 0) for name in weights(package)} < set(asked)
    assert len(set(asked)) == len(asked)
    assert (first["text"], first["cached"], first["cachedReason"]) == (expected, True, "kept in Cache Storage")
    assert first["parts"] == sorted(first["parts"])
    assert len(first["parts"]) > len(weights(package))
    assert len({total for _, total in first["parts"]}) == 1, "known from the beginning"
    assert first["parts"][-1][0] == first["parts"][-1][1]
    second = load(page, options)
    assert (second["text"], second["parts"][-1]) == (expected, first["parts"][-1])
    assert server.looked() == []


def test_without_the_network(page: Page, server: Server, expected: str) -> None:
    load(page)
    # The manifest is kept when the model is there.
    kept = "caches.open('deploykit').then((cache) => cache.match('/manifest.json', { ignoreSearch: true }))"
    page.wait(f"{kept}.then(Boolean)")
    server.online = False
    assert load(page)["text"] == expected


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_connection_goes_on_where_it_was(
    page: Page, server: Server, package: Path, expected: str, ranges: bool
) -> None:
    name = weights(package)[3]
    server.cut, server.ranges = name, ranges
    found = load(page)
    assert found["text"] == expected
    assert found["parts"][-1][0] == found["parts"][-1][1]
    assert [start for file, start in server.looked() if file == name] == [0, (package / name).stat().st_size // 2]


def test_an_interrupted_load_goes_on_at_the_next_visit(
    page: Page, server: Server, package: Path, expected: str
) -> None:
    names = weights(package)
    server.left = sent = len(names) // 2
    failed = load(page)
    assert failed["error"] == "NetworkError"
    tried = {name for name, _ in server.looked() if name in names}
    assert len(tried) <= sent + 4, "nothing is begun after a failure"
    server.left = 1000
    page.reload()
    assert load(page)["text"] == expected
    asked = {name for name, _ in server.looked()}
    assert len(asked) == len(names) - sent, "all that was sent is kept"


def test_a_load_that_is_aborted_goes_on_later(page: Page, server: Server, package: Path, expected: str) -> None:
    script = (LOAD % "{ signal: stop.signal }").replace(
        "parts.push([loaded, total])", "(parts.push([loaded, total]), loaded > total / 2 && stop.abort())"
    )
    found = page.evaluate(script.replace("const parts", "const stop = new AbortController();\n  const parts"))
    assert found["error"] == "AbortError"
    asked = {name for name, _ in server.looked()}
    assert 0 < len(asked & {*weights(package)}) < len(weights(package))
    assert load(page)["text"] == expected
    assert len({name for name, _ in server.looked()} & asked) <= 4, "those that were under way"


CHANGE = """(async () => {
  const cache = await caches.open('deploykit');
  const key = (await cache.keys()).find(({ url }) => new URL(url).pathname.slice(1) === '%s');
  const bytes = new Uint8Array(await (await cache.match(key)).arrayBuffer());
  %s
})()"""


@pytest.mark.parametrize(
    "damage",
    ["bytes[100] ^= 1; await cache.put(key, new Response(bytes));", "await cache.put(key, new Response('short'));"],
)
def test_a_damaged_file_is_fetched_anew(page: Page, server: Server, package: Path, expected: str, damage: str) -> None:
    load(page)
    server.looked()
    name = weights(package)[1]
    page.evaluate(CHANGE % (name, damage))
    found = load(page)
    assert (found["text"], server.looked()) == (expected, [(name, 0)])
    assert found["parts"][-1][0] == found["parts"][-1][1]
    assert (load(page)["text"], server.looked()) == (expected, [])


def test_a_full_disk_is_no_failure(page: Page, server: Server, package: Path, expected: str) -> None:
    page.call("Storage.overrideQuotaForOrigin", origin=server.url, quotaSize=5 * PIECE)
    found = load(page)
    assert (found["text"], found["cached"]) == (expected, False)
    assert "Quota" in found["cachedReason"]
    assert len({name for name, _ in server.looked()}) > len(weights(package))
    page.call("Storage.overrideQuotaForOrigin", origin=server.url)
    assert load(page)["cached"]
    server.looked()
    assert (load(page)["text"], server.looked()) == (expected, [])


@pytest.mark.parametrize(
    ("before", "options", "reason"),
    [
        ("0", "{ cache: false }", "asked for"),
        ("Object.defineProperty(window, 'caches', { value: undefined }), 0", "{}", "no Cache Storage"),
        ("caches.open = () => Promise.reject(new Error('no')), 0", "{}", "no Cache Storage"),
    ],
)
def test_without_storage(page: Page, server: Server, expected: str, before: str, options: str, reason: str) -> None:
    page.evaluate(before)
    for _ in range(2):
        found = load(page, options)
        assert (found["text"], found["cached"]) == (expected, False)
        assert reason in found["cachedReason"]
        assert server.looked()


def test_what_is_needed_is_known_before(page: Page, server: Server, package: Path) -> None:
    needed = page.evaluate(REQUIREMENTS % "")
    assert not [name for name, _ in server.looked() if name.startswith("weights/")]
    files = {file["name"]: file["bytes"] for file in json.loads((package / "manifest.json").read_text())["files"]}
    others = ("model-relaxed.wasm", "text.wasm", "language.wasm", "tokenizer.bin")
    assert (needed["download"], needed["cached"]) == (sum(files[name] for name in (*weights(package), *others)), 0)
    assert needed["memory"]["weights"] == sum(files[name] for name in weights(package))
    assert needed["memory"]["total"] == sum(needed["memory"][part] for part in ("weights", "arena", "states"))
    assert needed["gpu"] == {"weights": 0, "arena": 0, "states": 0, "total": 0}
    load(page)
    after = page.evaluate(REQUIREMENTS % "")
    assert (after["download"], after["cached"], after["memory"]) == (0, needed["download"], needed["memory"])


def test_more_pages_need_more_memory(page: Page) -> None:
    one, two, five = (
        page.evaluate(REQUIREMENTS % f"{{ dims: {{ pages: {pages}, tokens: 8 }} }}") for pages in (1, 2, 5)
    )
    page_bytes = two["memory"]["states"] - one["memory"]["states"]
    assert five["memory"]["states"] - two["memory"]["states"] == 3 * page_bytes > 0
    assert five["memory"]["arena"] == one["memory"]["arena"] > 0
    on_gpu = page.evaluate(REQUIREMENTS % "{ device: 'webgpu', dims: { pages: 5 } }")
    assert on_gpu["gpu"]["weights"] == one["memory"]["weights"]
    assert on_gpu["gpu"]["states"] == five["memory"]["states"]
