"""Forms of kernels: what a device with a feature computes next to one without it, on all devices of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters
from deploykit.engines.native.gpu import GpuOptions
from deploykit.engines.native.on_gpu import OnGpu, open_gpu
from tests.driver.test_vulkan import DEVICES
from tests.seeded import seeded

F16, SUBGROUPS, DOT = 1, 2, 4
HEAD = '<ir_version: 9, opset_import: ["": 20]>\n'

PRODUCTS = f"""{HEAD}products (uint8[n, 72] x, int8[n, 320] y)
    => (int32[n, 40] p, int32[n, 24] q, int32[n, 10] r, uint8[n, 40] s)
<float scale = {{512.0}}, uint8 zero = {{100}}, int8 low = {{-5}}> {{
    p = MatMulInteger(x, w)
    q = MatMulInteger(y, v, low)
    r = MatMulInteger(x, u, zero)
    f = Cast<to = 1>(p)
    s = QuantizeLinear(f, scale, zero)
}}"""
"""Unsigned and signed factors, sums that teams divide, columns that fill no tile, and an epilogue."""

SHAPES = {"w": (72, 40), "v": (320, 24), "u": (72, 10)}

CONVOLUTIONS = f"""{HEAD}convolutions (uint8[b, 8, h, 9] x) => (int32[b, 16, h2, w2] p, int32[b, 8, h1, 9] q)
<uint8 zero = {{7}}> {{
    p = ConvInteger<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, zero)
    q = ConvInteger<kernel_shape = [1, 1]>(x, v, zero)
}}"""
KERNELS = {"w": (16, 8, 3, 3), "v": (8, 8, 1, 1)}


HALVES = f"""{HEAD}halves (float16[n, 68] x, float16[n, k] y) => (float16[n, 40] p, float16[n, k] q) {{
    p = MatMul(x, w)
    e = Exp(y)
    q = Mul(e, y)
}}"""
"""Vectors of floats of 16 bits, and single ones."""


def devices() -> Iterator[tuple[str, Path | None]]:
    """The drivers, and for Vulkan the file of each implementation that is there."""
    yield from (("vulkan", path) for path in DEVICES.values() if path.exists())
    if adapters("opencl"):
        yield "opencl", None


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not list(devices()), reason="needs a device with Vulkan or OpenCL"),
]


@pytest.fixture(params=list(devices()), ids=lambda device: device[1].stem if device[1] else device[0])
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A driver, which finds one implementation."""
    name, path = request.param
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if path is not None:
        monkeypatch.setenv("VK_DRIVER_FILES", str(path))
        monkeypatch.setenv("VK_ICD_FILENAMES", str(path))
    return str(name)


@contextmanager
def opened(folder: Path, driver: str, without: int = 0) -> Iterator[tuple[OnGpu, int]]:
    """The model on the first device, and the features whose forms it takes."""
    with deploykit.open(folder) as session:
        manifest = session.manifest
    library = folder / f"lib{manifest.prefix}.so"
    gpu = open_gpu(library, folder, manifest, driver, GpuOptions(without=without))
    assert not gpu.features & without
    try:
        yield OnGpu(library, folder, manifest, 1, gpu), gpu.features
    finally:
        gpu.close()


def built(model: onnx.ModelProto, folder: Path) -> Path:
    deploykit.build(model, output=folder, devices=tuple(CODE))
    assert "#define dot_of_bytes" in (folder / CODE["opencl"]).read_text()
    return folder


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, np.ndarray]]:
    model = seeded(PRODUCTS, SHAPES, np.int8)
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    return built(model, tmp_path_factory.mktemp("products") / "dist"), weights


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, np.ndarray]]:
    model = seeded(CONVOLUTIONS, KERNELS, np.int8)
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    return built(model, tmp_path_factory.mktemp("convolutions") / "dist"), weights


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    model = seeded(HALVES, {"w": (68, 40)}, np.float16)
    folder = tmp_path_factory.mktemp("halves") / "dist"
    deploykit.build(model, output=folder, devices=tuple(CODE))
    return folder, onnx.numpy_helper.to_array(model.graph.initializer[0])


def integers(shape: Sequence[int], dtype: type) -> np.ndarray:
    """Integers with the extremes of their dtype among them."""
    ends = np.iinfo(dtype)
    found = np.random.default_rng(sum(shape)).integers(ends.min, ends.max + 1, shape).astype(dtype)
    found.flat[:2] = ends.min, ends.max
    return found


@pytest.mark.parametrize("without", [0, DOT, DOT | SUBGROUPS])
def test_products_of_8_bits_are_exact(
    products: tuple[Path, Mapping[str, np.ndarray]], driver: str, without: int
) -> None:
    folder, weights = products
    wide = {name: array.astype(np.int64) for name, array in weights.items()}
    with opened(folder, driver, without) as (engine, _):
        for rows in (1, 3, 4, 33, 600):
            x, y = integers((rows, 72), np.uint8), integers((rows, 320), np.int8)
            p, q, r, s = engine.run([x, y])
            np.testing.assert_array_equal(p, x.astype(np.int64) @ wide["w"])
            np.testing.assert_array_equal(q, (y.astype(np.int64) + 5) @ wide["v"])
            np.testing.assert_array_equal(r, (x.astype(np.int64) - 100) @ wide["u"])
            np.testing.assert_array_equal(s, np.clip(np.rint(p / np.float32(512)) + 100, 0, 255))


@pytest.mark.skipif(not DEVICES["lavapipe"].exists(), reason="needs lavapipe")
def test_lavapipe_has_all_features(
    products: tuple[Path, Mapping[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So there each form is compared with the others."""
    monkeypatch.setenv("VK_DRIVER_FILES", str(DEVICES["lavapipe"]))
    monkeypatch.setenv("VK_ICD_FILENAMES", str(DEVICES["lavapipe"]))
    with opened(products[0], "vulkan") as (_, features):
        assert features == F16 | SUBGROUPS | DOT


@pytest.mark.parametrize("without", [0, DOT])
def test_convolutions_of_8_bits_are_exact(
    convolutions: tuple[Path, Mapping[str, np.ndarray]], driver: str, without: int
) -> None:
    folder, weights = convolutions
    w, v = (weights[name].astype(np.int64) for name in "wv")
    with opened(folder, driver, without) as (engine, _):
        for batch, height in ((1, 1), (1, 4), (3, 7), (2, 33)):
            x = integers((batch, 8, height, 9), np.uint8)
            data = np.pad(x.astype(np.int64) - 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (2, 3))[:, :, ::2, ::2]
            p, q = engine.run([x])
            np.testing.assert_array_equal(p, np.einsum("bchwyx,ocyx->bohw", windows, w))
            np.testing.assert_array_equal(q, np.einsum("bchw,oc->bohw", data[:, :, 1:-1, 1:-1], v[:, :, 0, 0]))


def test_floats_of_16_bits_are_the_same_in_words(halves: tuple[Path, np.ndarray], driver: str) -> None:
    """Devices whose buffers hold them, with arithmetic on them or without, and all others."""
    folder, weight = halves
    random = np.random.default_rng(0)
    with opened(folder, driver) as (own, _), opened(folder, driver, F16) as (words, _):
        for rows, columns in ((1, 1), (3, 7), (4, 64), (33, 5)):
            x = random.standard_normal((rows, 68)).astype(np.float16)
            y = random.standard_normal((rows, columns)).astype(np.float16)
            p, q = own.run([x, y])
            for found, other in zip((p, q), words.run([x, y]), strict=True):
                np.testing.assert_array_equal(found.view(np.uint16), other.view(np.uint16))
            wide = y.astype(np.float32)
            np.testing.assert_allclose(p, x.astype(np.float32) @ weight.astype(np.float32), rtol=2e-3, atol=1e-3)
            np.testing.assert_allclose(q, np.exp(wide) * wide, rtol=2e-3, atol=1e-6)
