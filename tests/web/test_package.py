"""The package of a model: its files, and right results in node at every size."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.basics.dtypes import DTYPES
from deploykit.errors import ShapeError, ToolchainError, UsageError
from deploykit.runtime import JS_RUNNER
from deploykit.targets.webgpu import WebTarget
from deploykit.targets.webgpu.declarations import ARRAYS
from tests.seeded import seeded
from tests.web.conftest import in_node


def values(n: int, h: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {"x": rng.standard_normal((n, 3, h, 20)).astype(np.float32), "shift": np.arange(n) - 2**40}


def test_it_computes_the_same_at_every_size(package: Path, model: onnx.ModelProto) -> None:
    reference = ReferenceEvaluator(model)
    with deploykit.open(package) as session:
        for n, h in ((1, 1), (3, 7), (8, 64), (1, 33)):
            feeds = values(n, h)
            results, expected = session.run(feeds), reference.run(None, feeds)
            np.testing.assert_allclose(results["y"], expected[0], rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(results["moved"], expected[1])


def test_fast_math_computes_nearly_the_same(package: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    artifact = deploykit.build(model, "webgpu", {"n": (1, 8), "h": (1, 64)}, tmp_path / "fast", fast_math=True)
    assert artifact is not None
    assert artifact.manifest.fast_math
    with deploykit.open(package) as precise, deploykit.open(tmp_path / "fast") as fast:
        np.testing.assert_allclose(fast.run(values(2, 9))["y"], precise.run(values(2, 9))["y"], rtol=1e-5)


def test_a_wrong_input_is_refused_and_the_next_run_works(package: Path) -> None:
    with deploykit.open(package) as session:
        with pytest.raises(ShapeError, match="axis 1"):
            session(x=np.zeros((1, 4, 9, 20), np.float32), shift=np.zeros(1, np.int64))
        with pytest.raises(ShapeError, match="found 9"):
            session.run(values(9, 3))
        assert session.run(values(2, 3))["y"].shape == (2, 10)


def test_memory_is_known_before_a_run(package: Path) -> None:
    with deploykit.open(package) as session:
        assert session.peak_bytes({"n": 1, "h": 1}) < session.peak_bytes({"n": 8, "h": 64})
    found = in_node(package, package.as_uri() + "/", "model.memory({ n: 8, h: 64 })")
    manifest = json.loads((package / "manifest.json").read_text())
    assert found["value"]["arena"] == manifest["peak_memory"]["at_bounds"]
    assert found["value"]["weights"] == manifest["peak_memory"]["weights"]


def test_code_is_small_and_imports_nothing_that_is_not_used(package: Path) -> None:
    manifest = json.loads((package / "manifest.json").read_text())
    sizes = {file["name"]: file["gzip_bytes"] for file in manifest["files"]}
    assert sizes["model.wasm"] < 20_000
    scripts = {name: size for name, size in sizes.items() if name.startswith("runtime/")}
    assert scripts["runtime/model.mjs"] < 12_500, "where there is no GPU"
    assert scripts["runtime/storage.mjs"] < 1_300, "loaded where there is Cache Storage, with the manifest"
    assert scripts["runtime/choosing.mjs"] < 1_400, "loaded where there is a GPU, with the manifest"
    assert scripts["runtime/model.mjs"] + scripts["runtime/gpu.mjs"] < 19_400
    assert scripts["runtime/auto.mjs"] < 1_020, "loaded behind the first result"
    assert scripts["runtime/lent.mjs"] < 1_400, "loaded by inputs in buffers of a page only"
    assert scripts["runtime/picture.mjs"] < 4_400, "loaded by `model.picture` only"
    assert scripts["runtime/profile.mjs"] < 1_500, "loaded by a profile only"
    assert scripts["runtime/requirements.mjs"] < 1_400, "loaded by `requirements` only"
    assert scripts["runtime/pool.mjs"] + scripts["runtime/worker.mjs"] < 2_100, "loaded by threads only"
    assert scripts["runtime/proxy.mjs"] < 2_450, "loaded with the option worker only"
    assert scripts["runtime/remote.mjs"] < 30_500, "all modules in one, for workers, which load no others"
    script = "const m = new WebAssembly.Module(require('fs').readFileSync(process.argv[1])); "
    script += "console.log(JSON.stringify(WebAssembly.Module.imports(m)))"
    call = ["node", "-e", script, str(package / "model.wasm")]
    found = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    assert [(entry["module"], entry["name"]) for entry in found] == [("env", "memory"), ("profile", "step")]


def test_bundlers_leave_out_code_for_node(package: Path) -> None:
    scripts = "".join(path.read_text() for path in (package / "runtime").iterdir())
    foreign = set(re.findall(r"import\('([^.'][^']*)'\)", scripts))
    assert {"fs/promises", "os", "worker_threads"} == foreign
    assert json.loads((package / "package.json").read_text())["browser"] == dict.fromkeys(foreign, False)


def test_javascript_knows_every_dtype_by_its_code() -> None:
    script = f"import('{(JS_RUNNER.parent / 'dtypes.mjs').as_uri()}').then(({{ DTYPES }}) => console.log("
    script += "JSON.stringify([...DTYPES].map(([name, { code, array }]) => [name, code, array.name]))))"
    found = json.loads(subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True).stdout)
    assert found == [[name, entry.code, ARRAYS[entry.storage.name]] for name, entry in DTYPES.items()]


def test_large_weights_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploykit.targets.webgpu.SHARD_BYTES", 4096)
    weight = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32)
    text = '<ir_version: 9, opset_import: ["": 20]> wide (float[n, 64] x) => (float[n, 96] y) { y = MatMul(x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    deploykit.build(model, "webgpu", output=tmp_path / "wide")
    pieces = sorted(path.name for path in (tmp_path / "wide" / "weights").iterdir())
    assert pieces == ["000.bin", *(f"00{number}-more.bin" for number in range(1, 6))]
    x = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
    with deploykit.open(tmp_path / "wide") as session:
        np.testing.assert_allclose(session(x=x)["y"], x @ weight, rtol=1e-4, atol=1e-5)


def test_what_node_cannot_do(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no choice of kernels"):
        deploykit.open(package, cpu="x86-64-v2")
    with pytest.raises(UsageError, match="for the web"):
        deploykit.open(package, sanitize=True)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ToolchainError, match="install node"):
        deploykit.open(package)


def test_a_failing_linker_leaves_nothing_behind(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploykit.basics.toolchain.probe", lambda _: None)
    with pytest.raises(ToolchainError, match="pip install ziglang"):
        deploykit.build(model, "webgpu", {"n": 1, "h": 4}, tmp_path / "dist")
    assert list(tmp_path.iterdir()) == []


def test_a_package_of_one_module(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> f (float[n] x) => (float[n] y) { y = Abs(x) }'
    )
    artifact = deploykit.build(model, WebTarget(["model-relaxed"]), output=tmp_path / "one")
    assert artifact is not None
    found = {file.name for file in artifact.manifest.files}
    assert found & {"model.wasm", "model-relaxed.wasm", "model-gpu.wasm", "shaders.wgsl"} == {"model-relaxed.wasm"}


HEAVY = '<ir_version: 9, opset_import: ["": 20]> f (float[n, 64] x) => (float[n, 96] y) { y = MatMul(x, w) }'


@pytest.mark.parametrize(
    ("device", "modules"),
    [("wasm", {"model.wasm", "model-relaxed.wasm"}), ("webgpu", {"model-gpu.wasm", "shaders.wgsl"})],
)
def test_a_package_for_one_device(tmp_path: Path, device: str, modules: set[str]) -> None:
    model = seeded(HEAVY, {"w": (64, 96)})
    artifact = deploykit.build(model, "webgpu", output=tmp_path / "one", settings={"device": device})
    assert artifact is not None
    names = {file.name for file in artifact.manifest.files}
    assert {name for name in names if name.startswith(("model", "shaders"))} == modules
    assert not any(name.startswith("weights/gpu-" if device == "wasm" else "weights/wasm-") for name in names)
    base = (tmp_path / "one").as_uri() + "/"
    found = in_node(tmp_path / "one", base, "[model.device, model.deviceReason]")
    if device == "wasm":
        assert found["value"] == ["wasm", "the model has no kernels for a GPU"]
        with pytest.raises(UsageError, match="no kernels for a GPU"):
            deploykit.open(tmp_path / "one", device="webgpu")
    else:
        assert (found["error"], "no WebGPU adapter" in found["message"]) == ("UnsupportedError", True)
        refused = in_node(tmp_path / "one", base, f"load((name) => new URL('{base}' + name), {{ device: 'wasm' }})")
        assert refused["error"] == "UnsupportedError"
        with pytest.raises(UsageError, match="no kernels for WebAssembly: open it with the device 'webgpu'"):
            deploykit.open(tmp_path / "one", device="wasm")


def test_a_package_for_an_unknown_device(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no device 'gpu': there are wasm and webgpu"):
        deploykit.build(model, "webgpu", {"n": 1, "h": 4}, tmp_path / "dist", settings={"device": "gpu"})


@pytest.mark.parametrize("modules", [[], ["model", "relaxed"]])
def test_unknown_modules(modules: list[str]) -> None:
    with pytest.raises(UsageError, match=r"are not one or more of model, model-relaxed, model-gpu"):
        WebTarget(modules)
