"""Artifacts for arm64: they run under an emulator here and give the same results."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.errors import ShapeError, ToolchainError, UsageError

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="arm64 is this machine")
needs_qemu = pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="needs qemu-user")


@needs_qemu
@pytest.mark.parametrize("cpu", ["armv8-a", "armv8.2-a+dotprod"])
def test_arm64_computes_the_same(model: onnx.ModelProto, cpu: str, tmp_path: Path) -> None:
    deploykit.build(model, cpu=cpu, output=tmp_path / "dist")
    reference = ReferenceEvaluator(model)
    with deploykit.open(tmp_path / "dist") as session:
        assert session.manifest.cpu == cpu
        for n in (1, 5):
            x = np.random.default_rng(n).standard_normal((n, 3, 9, 20)).astype(np.float32)
            np.testing.assert_allclose(session(x=x)["y"], reference.run(None, {"x": x})[0], rtol=1e-4, atol=1e-6)
        with pytest.raises(ShapeError, match="axis 1"):
            session(x=np.zeros((1, 4, 9, 20), np.float32))


@pytest.mark.slow
@needs_qemu
def test_all_levels_compute_the_same_bits_of_integers(tmp_path: Path) -> None:
    """Products and depthwise convolutions, with channels that fill vectors and that do not."""
    text = """<ir_version: 9, opset_import: ["": 20]>
        quantised (uint8[n, 21, h, w] x) => (uint8[n, 37, h, w] y) <
            float sx = {0.02}, uint8 zx = {131}, float sw = {0.01}, int8 zw = {0}, float sy = {0.7}, uint8 zy = {17}
        > {
            a = QLinearConv<group=21, pads=[1, 1, 1, 1]>(x, sx, zx, v, sw, zw, sx, zx)
            y = QLinearConv(a, sx, zx, w, sw, zw, sy, zy)
        }"""
    random = np.random.default_rng(0)
    model = onnx.parser.parse_model(text)
    for name, shape in {"v": (21, 1, 3, 3), "w": (37, 21, 1, 1)}.items():
        weight = random.integers(-127, 128, shape).astype(np.int8)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    x = random.integers(0, 256, (2, 21, 7, 11)).astype(np.uint8)
    results = {}
    for cpu in ("armv8-a", "armv8.2-a+dotprod", "armv8.2-a+dotprod+fullfp16", "armv8.2-a+dotprod+i8mm"):
        deploykit.build(model, cpu=cpu, output=tmp_path / cpu)
        with deploykit.open(tmp_path / cpu) as session:
            results[cpu] = session(x=x)["y"]
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    for found in results.values():
        np.testing.assert_array_equal(found, results["armv8-a"])
    assert np.abs(results["armv8-a"].astype(int) - expected.astype(int)).max() <= 1
    assert len(np.unique(expected)) > 20


@pytest.mark.slow
@needs_qemu
def test_products_of_matrices_have_the_bits_of_dot_products(tmp_path: Path) -> None:
    """Depths with odd numbers of groups and in several parts, partial groups and panels, odd numbers of rows."""
    random = np.random.default_rng(1)
    sizes = [(1, 3), (4, 8), (9, 24), (12, 7), (32, 16), (67, 33), (1030, 9), (2052, 16)]
    lines, arrays = [], {}
    for depth, width in sizes:
        arrays[f"w{depth}"] = random.integers(-128, 128, (depth, width)).astype(np.int8)
        lines.append(f"y{depth} = MatMulInteger(x{depth}, w{depth})")
    inputs = ", ".join(f"{'uint8' if depth % 2 else 'int8'}[n, {depth}] x{depth}" for depth, _ in sizes)
    outputs = ", ".join(f"int32[n, {width}] y{depth}" for depth, width in sizes)
    text = f'<ir_version: 9, opset_import: ["": 20]> products ({inputs}) => ({outputs}) {{ {" ".join(lines)} }}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    sessions = []
    for cpu in ("armv8.2-a+dotprod", "armv8.2-a+dotprod+i8mm"):
        deploykit.build(model, cpu=cpu, output=tmp_path / cpu)
        sessions.append(deploykit.open(tmp_path / cpu))
    for n in (1, 2, 5, 12, 13, 31):
        given = {
            f"x{depth}": random.integers(0, 256, (n, depth)).astype(np.uint8).view("uint8" if depth % 2 else "int8")
            for depth, _ in sizes
        }
        dots, matrices = (session.run(given) for session in sessions)
        for depth, _ in sizes:
            wanted = given[f"x{depth}"].astype(np.int32) @ arrays[f"w{depth}"].astype(np.int32)
            np.testing.assert_array_equal(matrices[f"y{depth}"], wanted, err_msg=f"{n} rows of {depth}")
            np.testing.assert_array_equal(dots[f"y{depth}"], wanted)
    for session in sessions:
        session.close()


def test_limits_of_the_emulator(model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploykit.build(model, cpu="armv8-a", output=tmp_path / "dist")
    with pytest.raises(UsageError, match="under an emulator it has one thread"):
        deploykit.open(tmp_path / "dist", threads=2)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"the artifact is for aarch64, .* install QEMU"):
        deploykit.open(tmp_path / "dist")
