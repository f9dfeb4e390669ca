"""Packages with kernels for GPUs, on the devices of this machine."""

from __future__ import annotations

import ast
import platform
import zipfile
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
from tests.android.conftest import DIMS, Run, aar_of, needs_java, on_desktop
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


@pytest.fixture(scope="module")
def on_java(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """An AAR with kernels for all devices, and what runs it on a JVM."""
    package = tmp_path_factory.mktemp("android") / "lookup"
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, package, devices=tuple(CODE))
    run = on_desktop(package, "Gpus", tmp_path_factory.mktemp("gpus"))
    return package, lambda *words: [line[2:] for line in run(*words) if line.startswith("> ")]


@needs_java
def test_what_an_aar_holds_for_gpus(on_java: tuple[Path, Run]) -> None:
    with zipfile.ZipFile(aar_of(on_java[0])) as archive:
        infos = {name: archive.getinfo(f"assets/lookup/{name}") for name in CODE.values()}
        manifest = archive.read("AndroidManifest.xml").decode()
    assert all(info.compress_type == zipfile.ZIP_DEFLATED for info in infos.values())
    assert '<uses-native-library android:name="libOpenCL.so" android:required="false" />' in manifest


@needs_java
@needs_gpus
@pytest.mark.parametrize(("device", "found"), [*((name, name) for name in (*CODE, "cpu")), ("auto", "vulkan")])
def test_java_runs_on_all_devices(
    on_java: tuple[Path, Run], model: onnx.ModelProto, device: str, found: str, tmp_path: Path
) -> None:
    lines = on_java[1]("run", tmp_path, device)
    assert lines[6::7] == [f"{found}|"] * 3
    reference = ReferenceEvaluator(model)
    for start in (0, 7, 14):
        for index, (b, n) in enumerate(((3, 7), (8, 64), (1, 1))):
            for line, want in zip(lines[start + 2 * index :], reference.run(None, values(b, n)), strict=False):
                np.testing.assert_allclose(ast.literal_eval(line), want.ravel(), rtol=1e-4, atol=1e-6)
    kept = [f"lookup-{found}.kernels"] if found in CODE else []
    assert [path.name for path in tmp_path.glob("*.kernels")] == kept


@needs_java
def test_java_falls_back_to_the_cpu(on_java: tuple[Path, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "OCL_ICD_VENDORS"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    *_, last = on_java[1]("run", tmp_path, "auto")
    assert last.startswith("cpu|vulkan: there is no ")
    assert "; opencl: there is no " in last
    assert on_java[1]("run", tmp_path, "opencl")[0].startswith("opencl: there is no ")
    assert on_java[1]("devices", tmp_path) == ["cpu"]


@needs_java
@needs_gpus
def test_java_lists_devices(on_java: tuple[Path, Run], tmp_path: Path) -> None:
    assert {"cpu", "vulkan:1", "opencl:1"} <= set(on_java[1]("devices", tmp_path))
    assert on_java[1]("run", tmp_path, "vulkan:99")[0].startswith("vulkan: there is no adapter 99")
    assert on_java[1]("run", tmp_path, "metal")[0].startswith("there is no device 'metal': there are [cpu (CPU, ")
