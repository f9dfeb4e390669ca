"""What pages keep in Cache Storage: one version of each model, which loads without the network, and can be cleared."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bench.browser import FolderHandler, find_chromium, served
from tests.apps.devtools import Page, chromium

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

WEIGHTS = "weights/000.bin"
ENTRIES = 3
"""The module, the weights, and the manifest."""


class Place:
    """A page next to a package. `online` is whether the server answers, and `pause` the seconds until it does."""

    def __init__(self, folder: Path, page: Page) -> None:
        self.folder, self.page, self.online, self.pause = folder, page, True, 0.0

    def do(self, script: str) -> Any:
        return self.page.evaluate(script)

    def open(self, address: str) -> None:
        self.page.open(f"{address}/cached.html")
        self.page.wait("globalThis.ready")


@pytest.fixture
def place(package: Path, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "small"
    shutil.copytree(package, folder)
    shutil.copyfile(Path(__file__).with_name("cached.html"), folder / "cached.html")

    class Handler(FolderHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def do_GET(self) -> None:  # noqa: N802
            if found.online:
                time.sleep(found.pause)
                super().do_GET()
            else:
                self.close_connection = True
                self.connection.close()

    with served(Handler) as address, chromium() as page:
        found = Place(folder, page)
        found.open(address)
        yield found


def change(folder: Path, name: str) -> None:
    """A new build of the file `name`."""
    path, listed = folder / name, folder / "manifest.json"
    data = path.read_bytes() + (b"\0\1\0" if name.endswith(".wasm") else b"\n")
    path.write_bytes(data)
    manifest, written = json.loads(listed.read_text()), listed.stat().st_mtime
    for entry in manifest["files"]:
        if entry["name"] == name:
            entry |= {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    listed.write_text(json.dumps(manifest))
    # Servers tell the time in seconds.
    os.utime(listed, (written + 2, written + 2))


def test_models_are_listed_and_cleared(place: Place) -> None:
    assert place.do("kept(0)") == []
    assert place.do("loaded()")["asked"] == ["manifest.json", "model-relaxed.wasm", WEIGHTS]
    (entry,) = place.do(f"kept({ENTRIES})")
    sizes = {file["name"]: file["bytes"] for file in json.loads((place.folder / "manifest.json").read_text())["files"]}
    assert entry["model"] == "small"
    assert entry["folder"] == place.do("new URL('.', location).href")
    assert len(entry["version"]) == 16
    assert entry["bytes"] == sizes["model-relaxed.wasm"] + sizes[WEIGHTS]
    assert place.do("loaded()") == {"moved": 42, "asked": ["manifest.json"]}
    place.do("clear('another')")
    assert place.do(f"kept({ENTRIES})") == [entry]
    place.do("clear('small')")
    assert place.do("kept(0)") == []
    place.do("loaded({ cache: false })")
    assert place.do("kept(0)") == []


def test_a_new_version_takes_the_place_of_the_old_one(place: Place) -> None:
    place.do("loaded()")
    (old,) = place.do(f"kept({ENTRIES})")
    change(place.folder, "plan.json")
    assert place.do("loaded()") == {"moved": 42, "asked": ["manifest.json"]}
    (new,) = place.do(f"kept({ENTRIES}, '{old['version']}')")
    assert new["bytes"] == old["bytes"]
    change(place.folder, "model-relaxed.wasm")
    # Twice if the browser answers with the old one.
    assert set(place.do("loaded()")["asked"]) == {"manifest.json", "model-relaxed.wasm"}
    (newest,) = place.do(f"kept({ENTRIES}, '{new['version']}')")
    assert newest["bytes"] == old["bytes"] + 3


def test_without_the_network(place: Place) -> None:
    place.do("loaded()")
    place.do(f"kept({ENTRIES})")
    place.online = False
    assert place.do("loaded()") == {"moved": 42, "asked": ["manifest.json"]}
    assert place.do("loaded({ cache: false })")["error"].startswith("NetworkError: http")
    place.do("clear()")
    assert place.do("loaded()")["error"].startswith("NetworkError: http")


def test_a_server_that_answers_is_believed(place: Place) -> None:
    place.do("loaded()")
    place.do(f"kept({ENTRIES})")
    (place.folder / "manifest.json").unlink()
    assert "HTTP 404" in place.do("loaded()")["error"]


TOGETHER = """(async () => {
  const stop = new AbortController();
  const parts = [];
  const onProgress = ({ loaded, total }) => parts.push(loaded / total);
  asked.length = 0;
  const both = [loaded({ cache: false, signal: stop.signal }), loaded({ cache: false, onProgress })];
  if (%s) setTimeout(() => stop.abort('enough'));
  const found = await Promise.all(both);
  const files = asked.filter((name) => /wasm|bin/.test(name)).sort();
  return [found.map(({ moved, error }) => moved ?? error), files, parts.at(-1)];
})()"""


def test_loads_at_the_same_time_share_what_they_fetch(place: Place) -> None:
    once = ["model-relaxed.wasm", WEIGHTS]
    place.pause = 1.5
    assert place.do(TOGETHER % "false") == [[42, 42], once, 1]
    (aborted, moved), *rest = place.do(TOGETHER % "true")
    assert (aborted in ("enough", 42), moved, *rest) == (True, 42, once, 1)
