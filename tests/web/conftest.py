"""A small model as a web package, a server that can fail, and node to load it from there."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import onnx
import pytest

import deploykit
from bench.browser import FolderHandler, served
from tests.seeded import seeded

MODEL = """<ir_version: 9, opset_import: ["": 20]>
small (float[n, 3, h, 20] x, int64[n] shift) => (float[n, 10] y, int64[n] moved) {
    a = Conv<pads=[1, 1, 1, 1]>(x, w1)
    b = Relu(a)
    c = GlobalAveragePool(b)
    d = Flatten(c)
    e = MatMul(d, w2)
    f = Tanh(e)
    y = Softmax<axis=-1>(f)
    moved = Add(shift, shift)
}"""
WEIGHTS = {"w1": (24, 3, 3, 3), "w2": (24, 10)}

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def node() -> None:
    if not shutil.which("node"):
        pytest.skip("needs node")


@pytest.fixture(scope="session")
def model() -> onnx.ModelProto:
    return seeded(MODEL, WEIGHTS)


@pytest.fixture(scope="session")
def package(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web") / "small"
    deploykit.build(model, "webgpu", {"n": (1, 8), "h": (1, 64)}, folder)
    return folder


@dataclass
class Server:
    """Serves a folder. `faults` change answers by the name of the file; `asked` are the names of those asked for."""

    url: str
    faults: dict[str, Callable[[SimpleHTTPRequestHandler, bytes], None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server(package: Path) -> Iterator[Server]:
    class Handler(FolderHandler):
        def do_GET(self) -> None:  # noqa: N802
            name = self.path.lstrip("/")
            found.asked.append(name)
            if name in found.faults:
                found.faults[name](self, (package / name).read_bytes())
            else:
                super().do_GET()

    with served(partial(Handler, directory=str(package))) as address:
        found = Server(f"{address}/")
        yield found


def in_node(package: Path, base: str, script: str = "", before: str = "") -> dict[str, Any]:
    """What `loading.mjs` reports of running `before`, loading the package from `base`, and running `script`."""
    call = ["node", str(HERE / "loading.mjs"), str(package), base, script, before]
    result = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    reported: dict[str, Any] = json.loads(result.stdout)
    return reported
