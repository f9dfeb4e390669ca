"""Packages with kernels for GPUs, on the devices of this machine."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters
from deploykit.errors import DeviceError, UsageError
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import DIMS
from tests.android.test_java import values

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")

needs_gpus = pytest.mark.skipif(not all(map(adapters, CODE)), reason="needs a device with Vulkan and one with OpenCL")


@pytest.fixture(scope="module")
def built(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries for all ABIs, with kernels for all devices."""
    folder = tmp_path_factory.mktemp("android") / "on-gpus"
    deploykit.build(model, AndroidTarget(), DIMS, folder, format="so", devices=tuple(CODE))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@needs_gpus
@pytest.mark.parametrize("device", [*CODE, "vulkan:1", "auto", "cpu"])
def test_all_devices_compute_the_same(built: Path, model: onnx.ModelProto, device: str) -> None:
    reference = ReferenceEvaluator(model)
    with deploykit.open(built, device=device) as session:
        for b, n in ((3, 7), (8, 64), (1, 1)):
            expected = reference.run(None, values(b, n))
            for found, want in zip(session.run(values(b, n)).values(), expected, strict=True):
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)


def test_code_is_the_same_for_all_abis(built: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "dist", format="so", devices=("vulkan",))
    assert (tmp_path / "dist" / "kernels.spv").read_bytes() == (built / "kernels.spv").read_bytes()
    assert not (tmp_path / "dist" / "kernels.cl").exists()
    with pytest.raises(UsageError, match="it was built for cpu, vulkan"):
        deploykit.open(tmp_path / "dist", device="opencl")


@needs_gpus
def test_a_missing_adapter(built: Path) -> None:
    with pytest.raises(DeviceError, match="there is no adapter 99"):
        deploykit.open(built, device="vulkan:99")


def test_an_emulator_has_no_gpu(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOYKIT_ABI", "arm64-v8a")
    with pytest.raises(UsageError, match="under an emulator it runs on the CPU only"):
        deploykit.open(built, device="vulkan")


def test_an_unknown_device(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no device 'metal': there are vulkan and opencl"):
        deploykit.build(model, AndroidTarget(), DIMS, tmp_path / "dist", format="so", devices=("metal",))
