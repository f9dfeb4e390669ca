"""A web package run from Python on each of its devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner

import deploykit
from deploykit.cli import app
from deploykit.engines.web.chromium import find_chromium
from tests.frontends.onnx.harness import parse

DEVICES = [
    "wasm",
    pytest.param("webgpu", marks=pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")),
]


def feeds(n: int, h: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(n + h).standard_normal((n, 3, h, 20)).astype(np.float32)
    return {"x": x, "shift": np.arange(n) * 10**10 - 5}


@pytest.mark.parametrize("device", DEVICES)
def test_sessions_run_side_by_side_and_refuse(package: Path, model: onnx.ModelProto, device: str) -> None:
    first, second = (deploykit.open(package, device=device) for _ in range(2))
    for session, n, h in [(first, 1, 1), (second, 3, 7), (first, 8, 64), (first, 1, 1)]:
        results = session.run(feeds(n, h))
        for found, expected in zip(results.values(), ReferenceEvaluator(model).run(None, feeds(n, h)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(deploykit.ShapeError, match="'shift' axis 0"):
        first.run(feeds(1, 1) | {"shift": np.zeros(2, np.int64)})
    assert first.peak_bytes({"n": 8, "h": 64}) > first.peak_bytes({"n": 1, "h": 1})
    first.close()
    assert second.run(feeds(2, 2))["moved"].tolist() == [-10, 2 * 10**10 - 10]
    second.close()


@pytest.mark.parametrize("device", DEVICES)
def test_elementwise_at_sizes_of_partial_vectors(tmp_path: Path, device: str) -> None:
    text = """<ir_version: 9, opset_import: ["": 20]>
    small (float[n, m] x) => (float[n, m] y) { t = Tanh(x) y = Add(t, x) }"""
    deploykit.build(onnx.parser.parse_model(text), "webgpu", output=tmp_path / "dist")
    session = deploykit.open(tmp_path / "dist", device=device)
    for size in [(1, 1), (1, 4), (3, 7), (5, 33)]:
        x = np.random.default_rng(sum(size)).standard_normal(size).astype(np.float32)
        np.testing.assert_allclose(session(x=x)["y"], np.tanh(x) + x, rtol=1e-5, atol=1e-6)
    session.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_values_larger_than_a_pipe_holds(tmp_path: Path, threads: int) -> None:
    """With worker threads, node's pipes are non-blocking: a write then fails while the pipe is full."""
    model = parse("(float[n] x) => (float[n] y, float[n] z) { y = Neg(x)  z = Abs(x) }")
    deploykit.build(model, "webgpu", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist", threads=threads) as session:
        for seed in range(5):
            x = np.random.default_rng(seed).standard_normal(300_000, dtype=np.float32)
            found = session(x=x)
            np.testing.assert_array_equal(found["y"], -x)
            np.testing.assert_array_equal(found["z"], np.abs(x))


@pytest.mark.parametrize("device", DEVICES)
def test_sizes_that_depend_on_data_and_differ_between_devices(tmp_path: Path, device: str) -> None:
    """In WebAssembly the product needs a workspace with a capacity; as a shader it does not."""
    text = """<ir_version: 9, opset_import: ["": 20]>
    product (float[4, 1] x, int64[2] shape, float[m, 4] w) => (float[a, b] y) {
        e = Expand(x, shape)
        y = MatMul(w, e)
    }"""
    model = onnx.parser.parse_model(text)
    deploykit.build(model, "webgpu", {"capacity_y_workspace": (8, 10**6)}, tmp_path / "dist")
    random = np.random.default_rng(0)
    with deploykit.open(tmp_path / "dist", device=device) as session:
        for m, columns in [(1, 1), (5, 7), (33, 300), (2, 3)]:
            given = {"x": random.standard_normal((4, 1)), "w": random.standard_normal((m, 4))}
            feeds = {name: value.astype(np.float32) for name, value in given.items()}
            feeds["shape"] = np.array([4, columns])
            expected = feeds["w"] @ np.broadcast_to(feeds["x"], (4, columns))
            np.testing.assert_allclose(session.run(feeds)["y"], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(deploykit.UsageError, match=r"no dim named capacity_z; its capacity dims are: .*capacity_y_w"):
        deploykit.build(model, "webgpu", {"capacity_z": 8}, tmp_path / "none")


@pytest.mark.parametrize("device", DEVICES)
def test_the_command_line_names_a_device(package: Path, device: str) -> None:
    call = ["run", str(package), "-i", "x=random:0", "-i", "shift=random:0", "--at", "n=2", "--at", "h=3"]
    result = CliRunner().invoke(app, [*call, "--device", device])
    assert (result.exit_code, "[2, 10]" in result.stdout) == (0, True), result.output


def test_what_there_is_not_is_refused(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(deploykit.UsageError, match="no device 'gpu': there are wasm and webgpu"):
        deploykit.open(package, device="gpu")
    with pytest.raises(deploykit.UsageError, match="one thread"):
        deploykit.open(package, device="webgpu", threads=2)
    monkeypatch.setattr("deploykit.engines.web.browser._started", [])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(deploykit.ToolchainError, match="Chromium"):
        deploykit.open(package, device="webgpu")


def test_a_model_for_the_cpu_has_no_device(model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, "host", output=tmp_path / "host")
    with pytest.raises(deploykit.UsageError, match="it was built for cpu"):
        deploykit.open(tmp_path / "host", device="webgpu")
