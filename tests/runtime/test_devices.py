"""Models on the GPUs of this machine: what is particular to artifacts for several devices. `tests.runtimes` runs all
suites on each device."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.compiler.variant import Variant
from deploykit.engines.native.adapters import adapters
from deploykit.engines.native.gpu import GpuOptions, chosen
from deploykit.engines.native.on_gpu import OnGpu, open_gpu
from deploykit.errors import DeviceError, UsageError
from deploykit.targets.host import HostTarget
from tests.frontends.onnx.harness import parse
from tests.seeded import seeded

TEXT = """<ir_version: 9, opset_import: ["": 20]>
devices (float[n, 48] x) => (float[n, 40] y) { h = MatMul(x, w) r = Relu(h) t = MatMul(r, v) y = Add(t, b) }"""
WEIGHTS = {"w": (48, 320), "v": (320, 40), "b": (40,)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(adapters, CODE)), reason="needs a device with Vulkan and one with OpenCL"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("devices") / "dist"
    deploykit.build(seeded(TEXT, WEIGHTS), output=folder, devices=tuple(CODE))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "deploykit"


def inputs(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, 48)).astype(np.float32)


@pytest.mark.parametrize("device", [*CODE, "vulkan:1"])
def test_all_devices_compute_the_same(built: Path, device: str) -> None:
    with deploykit.open(built) as on_cpu, deploykit.open(built, device=device) as on_gpu:
        for rows in (1, 7, 64, 3, 64):
            wanted = on_cpu(x=inputs(rows))["y"]
            np.testing.assert_allclose(on_gpu(x=inputs(rows))["y"], wanted, rtol=1e-4, atol=1e-4)


def test_devices_share_what_is_the_same(built: Path) -> None:
    """The bias has one layout for all, so it is stored once."""
    size = 4 * sum(np.prod(shape, dtype=int) for shape in WEIGHTS.values())
    assert (built / "weights.bin").stat().st_size < 2 * size
    assert json.loads((built / "manifest.json").read_text())["devices"] == list(CODE)


def test_compiled_kernels_are_kept(built: Path, cache: Path) -> None:
    for device in CODE:
        with deploykit.open(built, device=device) as session:
            session(x=inputs(2))
        (kept,) = cache.glob(f"{device}-*.bin")
        kept.write_bytes(kept.read_bytes()[:100])
        with deploykit.open(built, device=device) as session:
            session(x=inputs(2))


def test_wrong_devices_are_refused(built: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no device 'metal': there are vulkan and opencl"):
        deploykit.build(seeded(TEXT, WEIGHTS), output=tmp_path / "d", devices=["metal"])
    with pytest.raises(UsageError, match="target embedded has no devices to choose"):
        deploykit.build(seeded(TEXT, WEIGHTS), "embedded", {"n": 1}, tmp_path / "d", devices=["vulkan"])
    with pytest.raises(UsageError, match="cannot read the device 'vulkan:x'"):
        deploykit.open(built, device="vulkan:x")
    with pytest.raises(DeviceError, match="vulkan: "):
        deploykit.open(built, device="vulkan:99")
    deploykit.build(seeded(TEXT, WEIGHTS), output=tmp_path / "d")
    with pytest.raises(UsageError, match="does not run on the device 'opencl': it was built for cpu"):
        deploykit.open(tmp_path / "d", device="opencl")


@pytest.mark.parametrize("device", CODE)
def test_a_tensor_too_large_is_refused_and_smaller_ones_run(built: Path, device: str) -> None:
    manifest = deploykit.open(built).manifest
    library = built / f"lib{manifest.prefix}.so"
    gpu = open_gpu(library, built, manifest, device, GpuOptions(binding_bytes=1 << 18))
    engine = OnGpu(library, built, manifest, 1, gpu)
    (few,) = engine.run([inputs(4)])
    with pytest.raises(DeviceError, match="that this GPU binds at once"):
        engine.run([inputs(4000)])
    np.testing.assert_array_equal(engine.run([inputs(4)])[0], few)
    engine.close()
    gpu.close()


class Small(HostTarget):
    """A target whose kernels have several bindings for constants of more than 16 kB."""

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:
        return [
            variant if variant.gpu is None else replace(variant, gpu=replace(variant.gpu, binding_bytes=1 << 14))
            for variant in super().variants(cpu, devices)
        ]


@pytest.mark.parametrize("device", CODE)
def test_constants_that_are_larger_than_a_binding(tmp_path: Path, device: str) -> None:
    deploykit.build(seeded(TEXT, WEIGHTS), Small(), output=tmp_path / "d", devices=[device])
    with deploykit.open(tmp_path / "d") as session:
        manifest, wanted = session.manifest, session(x=inputs(5))["y"]
    library = tmp_path / "d" / f"lib{manifest.prefix}.so"
    for limit in (0, 1 << 14):
        gpu = open_gpu(library, tmp_path / "d", manifest, device, GpuOptions(binding_bytes=limit, buffer_bytes=limit))
        engine = OnGpu(library, tmp_path / "d", manifest, 1, gpu)
        np.testing.assert_allclose(engine.run([inputs(5)])[0], wanted, rtol=1e-4, atol=1e-4)
        gpu.close()


@pytest.mark.parametrize("device", CODE)
def test_a_profile_has_the_times_of_the_device(built: Path, device: str) -> None:
    with deploykit.open(built, device=device, profile=True) as session:
        session(x=inputs(64))
        calls, seconds = session.step_times()
        plan = session.plan
    worked = [name for name, count, time in zip(plan.steps, calls, seconds, strict=False) if count and time > 0]
    assert any("matmul" in name for name in worked)


@pytest.mark.parametrize("device", CODE)
@pytest.mark.parametrize("damage", ["a byte", "the end"])
def test_damaged_code_is_refused(built: Path, device: str, damage: str, tmp_path: Path) -> None:
    """Also where the code would still be valid, so that it would compute something else."""
    manifest = deploykit.open(built).manifest
    folder = shutil.copytree(built, tmp_path / "dist")
    code = bytearray((folder / CODE[device]).read_bytes())
    place = code.rindex(b"0.0") if device == "opencl" else len(code) // 2
    code[place] ^= 1
    (folder / CODE[device]).write_bytes(code if damage == "a byte" else code[:-1])
    with pytest.raises(DeviceError, match="damaged, or of another build than the library"):
        open_gpu(folder / f"lib{manifest.prefix}.so", folder, manifest, device, GpuOptions())


def test_a_kernel_for_no_gpu_runs_on_the_cpu(tmp_path: Path) -> None:
    model = parse("(float[n] x) => (double[n] y, float[n] z) { d = Cast <to = 11> (x) y = Exp(d) z = Exp(x) }")
    artifact = deploykit.build(model, output=tmp_path / "d", devices=["vulkan"])
    assert artifact is not None
    assert any("run on the CPU" in note for note in artifact.manifest.notes)
    x = np.linspace(-1, 1, 9, dtype=np.float32)
    with deploykit.open(tmp_path / "d", device="vulkan") as session:
        found = session(x=x)
    np.testing.assert_allclose(found["y"], np.exp(x.astype(np.float64)), rtol=1e-12)
    np.testing.assert_allclose(found["z"], np.exp(x), rtol=1e-5)


def test_auto_measures_and_remembers(built: Path, cache: Path) -> None:
    with deploykit.open(built, device="auto") as session:
        wanted = session(x=inputs(7))["y"]
        reason = session.where
        np.testing.assert_allclose(session(x=inputs(7))["y"], wanted, rtol=1e-4, atol=1e-4)
    assert all(f"{device} " in reason for device in ("cpu", *CODE))
    assert len(list(cache.glob("auto-*.json"))) == 1
    with deploykit.open(built, device="auto") as session:
        assert session.where == reason


def test_a_text_for_a_device() -> None:
    assert chosen("vulkan") == ("vulkan", GpuOptions())
    assert chosen("opencl:2") == ("opencl", GpuOptions(adapter=2))


def test_the_program_of_the_readme(built: Path, tmp_path: Path) -> None:
    """A C program with the lines that the artifact's README has for a GPU."""
    shutil.copytree(built, tmp_path / "dist")
    code = (built / "README.md").read_text().split("## On a GPU")[1].split("```c\n")[1].split("```")[0]
    head, body = code.split("\n\n", 1)
    (tmp_path / "app.c").write_text(PROGRAM % (head, body.replace("\n\n", "\n")))
    command = [
        "cc",
        "-Wall",
        "-Werror",
        "-I",
        "dist",
        "app.c",
        "-L",
        "dist",
        "-ldevices",
        "-Wl,-rpath,dist",
        "-o",
        "app",
    ]
    subprocess.run(command, check=True, cwd=tmp_path)
    x = inputs(3)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    found = subprocess.run(["./app"], check=True, cwd=tmp_path, capture_output=True).stdout
    with deploykit.open(built) as session:
        wanted = session(x=x)["y"]
    np.testing.assert_allclose(np.frombuffer(found, np.float32).reshape(3, 40), wanted, rtol=1e-4, atol=1e-4)


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
%s

static void* contents(const char* path) {
    FILE* file = fopen(path, "rb");
    void* data = aligned_alloc(64, 1 << 20);
    if (file == NULL || fread(data, 1, 1 << 20, file) == 0) {
        exit(1);
    }
    fclose(file);
    return data;
}

int main(void) {
    static float y[3 * 40];
    char error[256];
    const void* code = contents("dist/kernels.spv");
    const unsigned char* weights = contents("dist/weights.bin");
    dk_tensor inputs[] = {{contents("x.bin"), 3 * 48 * 4, DK_FLOAT32, 2, {3, 48}}};
    dk_tensor outputs[] = {{y, sizeof y, DK_FLOAT32, 2, {0}}};
    %s
    return fwrite(y, sizeof y, 1, stdout) == 1 ? 0 : 1;
}
"""
