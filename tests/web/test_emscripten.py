"""Emscripten instead of ziglang gives the same results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.basics.toolchain import find_wasm_compiler
from deploykit.errors import ToolchainError
from tests.web.conftest import in_node
from tests.web.test_package import values


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("emcc"), reason="needs emcc")
def test_modules_by_emscripten(
    model: onnx.ModelProto, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASM_CC", "emcc")
    assert find_wasm_compiler().family == "emscripten"
    deploykit.build(model, "webgpu", {"n": (1, 8), "h": (1, 64)}, tmp_path / "small")
    sizes = {
        file["name"]: file["gzip_bytes"] for file in json.loads((tmp_path / "small/manifest.json").read_text())["files"]
    }
    assert sizes["model.wasm"] < 20_000
    with deploykit.open(package) as expected:
        for threads in (1, 2):
            with deploykit.open(tmp_path / "small", threads=threads) as session:
                for n, h in ((1, 1), (8, 64), (3, 7)):
                    results = session.run(values(n, h))
                    for name, array in expected.run(values(n, h)).items():
                        np.testing.assert_allclose(results[name], array, rtol=1e-6)
    plain = "{ const { validate } = WebAssembly; WebAssembly.validate = (b) => !b.includes(0x80) && validate(b); }"
    base = (tmp_path / "small").as_uri() + "/"
    assert in_node(tmp_path / "small", base, "model.memory({ n: 1, h: 1 }).arena", before=plain)["value"] > 0


def test_something_else_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("cat", "there-is-no-such-program"):
        monkeypatch.setenv("WASM_CC", command)
        with pytest.raises(ToolchainError, match=f"WASM_CC is '{command}', which is no emcc"):
            find_wasm_compiler()
