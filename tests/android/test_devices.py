"""Packages with kernels for GPUs, on the devices of this machine."""

from __future__ import annotations

import ast
import platform
import re
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.artifact.plan import read_plan
from deploykit.errors import DeviceError, UsageError
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import DIMS, Run, aar_of, needs_gpus, needs_java
from tests.android.test_java import values

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")


@pytest.fixture(scope="module")
def built(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries for all ABIs, with kernels for all devices."""
    folder = tmp_path_factory.mktemp("android") / "on-gpus"
    deploykit.build(model, AndroidTarget(), DIMS, folder, format="so", devices=tuple(CODE))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.slow
@needs_gpus
@pytest.mark.parametrize("device", [*CODE, "vulkan:1", "auto", "cpu"])
def test_all_devices_compute_the_same(built: Path, model: onnx.ModelProto, device: str) -> None:
    reference = ReferenceEvaluator(model)
    with deploykit.open(built, device=device) as session:
        name = device.partition(":")[0]
        assert f"through {name}" in session.where if name in CODE else "through" not in session.where
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


@needs_java
def test_what_an_aar_holds_for_gpus(on_java: tuple[Path, Run]) -> None:
    with zipfile.ZipFile(aar_of(on_java[0])) as archive:
        infos = {name: archive.getinfo(f"assets/lookup/{name}") for name in CODE.values()}
        manifest = archive.read("AndroidManifest.xml").decode()
    assert all(info.compress_type == zipfile.ZIP_DEFLATED for info in infos.values())
    assert '<uses-native-library android:name="libOpenCL.so" android:required="false" />' in manifest


def right(model: onnx.ModelProto, lines: list[str]) -> None:
    """Check the results of a model in `lines`, for each size two outputs."""
    assert len(lines) == 6
    partly(model, lines)


def partly(model: onnx.ModelProto, lines: list[str]) -> None:
    """Check the results that there are."""
    reference = ReferenceEvaluator(model)
    for index, (b, n) in enumerate(((3, 7), (8, 64), (1, 1))):
        for line, want in zip(lines[2 * index :], reference.run(None, values(b, n)), strict=False):
            np.testing.assert_allclose(ast.literal_eval(line), want.ravel(), rtol=1e-4, atol=1e-6)


@needs_java
@needs_gpus
@pytest.mark.parametrize("device", [*CODE, "cpu", "vulkan:1"])
def test_java_runs_on_all_devices(
    on_java: tuple[Path, Run], model: onnx.ModelProto, device: str, tmp_path: Path
) -> None:
    lines = on_java[1]("run", tmp_path, device)
    assert lines[6::7] == [f"{device}|"] * 3
    for start in (0, 7, 14):
        right(model, lines[start : start + 6])
    driver = device.partition(":")[0]
    assert [path.name for path in tmp_path.glob("*.kernels")] == (
        [f"lookup-{driver}.kernels"] if driver in CODE else []
    )


@pytest.mark.slow
@needs_java
@needs_gpus
def test_java_measures_the_devices(on_java: tuple[Path, Run], model: onnx.ModelProto, tmp_path: Path) -> None:
    lines = on_java[1]("run", tmp_path, "auto")
    for start in (0, 7, 14):
        right(model, lines[start : start + 6])
    found, reason = lines[6].split("|")
    assert lines[6::7] == [lines[6]] * 3, "later models do not measure again"
    times = {name: float(ms) for name, ms in re.findall(r"(\w+) ([0-9.]+) ms", reason)}
    assert list(times) == ["cpu", *CODE]
    assert times[found] == min(times.values())
    assert reason.startswith(f"{found}: ")
    assert on_java[1]("run", tmp_path, "auto")[6] == lines[6], "nor does another process"
    other = next(name for name in times if name != found)
    kept = tmp_path / "lookup-auto.txt"
    key, _, _ = kept.read_text().splitlines()
    kept.write_text(f"{key}\n{other}\nremembered\n")
    lines = on_java[1]("run", tmp_path, "auto")
    assert lines[6::7] == [f"{other}|remembered"] * 3
    right(model, lines[:6])
    kept.write_text(f"{key}, another driver\n{other}\nremembered\n")
    assert "remembered" not in on_java[1]("run", tmp_path, "auto")[6]
    assert kept.read_text().startswith(f"{key}\n")


@needs_java
def test_java_falls_back_to_the_cpu(on_java: tuple[Path, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "OCL_ICD_VENDORS"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    *_, last = on_java[1]("run", tmp_path, "auto")
    assert re.fullmatch(r"cpu\|cpu: cpu [0-9.]+ ms, vulkan fails \(.*no .*\), opencl fails \(.*no .*\)", last)
    key = (tmp_path / "lookup-auto.txt").read_text().splitlines()[0]
    (tmp_path / "lookup-auto.txt").write_text(f"{key}\nvulkan\nremembered\n")
    *_, last = on_java[1]("run", tmp_path, "auto")
    assert last.startswith("cpu|cpu: cpu "), "a remembered device that is gone is not chosen"
    assert on_java[1]("run", tmp_path, "opencl")[0].startswith("DeviceException: opencl: there is no ")
    assert on_java[1]("devices", tmp_path) == ["cpu", ""]


@needs_java
@needs_gpus
def test_java_lists_devices(on_java: tuple[Path, Run], tmp_path: Path) -> None:
    assert {"cpu", "vulkan:1", "opencl:1"} <= set(on_java[1]("devices", tmp_path))
    assert on_java[1]("run", tmp_path, "vulkan:99")[0].startswith("DeviceException: vulkan: there is no adapter 99")
    assert on_java[1]("run", tmp_path, "metal")[0].startswith(
        "DeviceException: there is no device 'metal': there are [cpu (CPU, "
    )


@pytest.mark.slow
@needs_java
@needs_gpus
@pytest.mark.parametrize("device", ["cpu", *CODE])
def test_java_times_the_steps(on_java: tuple[Path, Run], device: str, tmp_path: Path) -> None:
    first, *steps = on_java[1]("profile", tmp_path, device)
    runs, name, milliseconds = first.split()
    assert (runs, name) == ("20", device)
    found = [step.split("|") for step in steps]
    plan = read_plan(on_java[0], None if device == "cpu" else "gpu")
    expected = [[plan.steps[entry.step], entry.result] for entry in plan.work]
    computed = [step[:2] for step in found if step[0] != "transfer"]
    assert computed == [step for step in expected if step[0] != "transfer"]
    assert all(float(step[2]) == 1 for step in found), "each step runs once a run"
    assert 0 < sum(float(step[3]) for step in found) < float(milliseconds)
    on_device = {step[4] == "true" for step in found if step[0] == "gather"}
    assert on_device == {device in CODE}


LOST, NO_DEVICE_MEMORY = -4, -2

FAULTS = [("QueueSubmit", LOST), ("WaitForFences", LOST), ("AllocateMemory", NO_DEVICE_MEMORY)]


@needs_java
@pytest.mark.slow
@pytest.mark.sampled(part=12)
@pytest.mark.parametrize(("function", "result"), FAULTS)
def test_java_survives_faults_of_a_device(
    on_java: tuple[Path, Run],
    model: onnx.ModelProto,
    failing: Path,
    function: str,
    result: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The n-th call fails, for each n from the first call on to one behind the first model's last."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(failing))
    in_runs = 0
    for n in range(1, 30):
        monkeypatch.setenv("FAILING", f"{function} {n} {result}")
        lines = on_java[1]("run", tmp_path, "vulkan")
        count = next((at for at, line in enumerate(lines) if not line.startswith("[")), 0)
        if lines[count].startswith("vulkan|") and count == 6:
            break
        assert lines[count].startswith("DeviceException: "), lines[count]
        if result == LOST:
            assert "lost" in lines[count]
        in_runs += count > 0
        partly(model, lines[:count])
        later = lines[count + 1 :]
        assert later[6::7] == ["vulkan|"] * 2, "the process goes on, and another model runs on the device"
        right(model, later[:6])
    else:
        pytest.fail("the model never runs")
    assert in_runs > 0, "no run has failed"


@needs_java
@pytest.mark.slow
@pytest.mark.sampled(part=18)
@pytest.mark.parametrize(("function", "result"), FAULTS)
def test_java_leaves_a_device_that_fails(
    on_java: tuple[Path, Run],
    model: onnx.ModelProto,
    failing: Path,
    function: str,
    result: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `auto` each run has the right result, whichever call fails."""
    on_java[1]("run", tmp_path, "auto")
    kept = tmp_path / "lookup-auto.txt"
    key = kept.read_text().splitlines()[0]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(failing))
    reasons = []
    for n in range(1, 30):
        kept.write_text(f"{key}\nvulkan\nremembered\n")
        monkeypatch.setenv("FAILING", f"{function} {n} {result}")
        lines = on_java[1]("run", tmp_path, "auto")
        for start in (0, 7, 14):
            right(model, lines[start : start + 6])
        reasons.append(lines[6])
        if lines[6::7] == ["vulkan|remembered"] * 3:
            break
    assert any(re.match(r"cpu\|vulkan: (?!remembered)", reason) for reason in reasons), reasons


LEFT_ALONE = "vulkan is left alone, because its driver ended the app when it was tried."


@needs_java
@pytest.mark.parametrize(
    ("name", "fault"),
    [("LACKING", "life"), ("FAILING", "QueueSubmit 1 134"), ("FAILING", "CreateComputePipelines 1 134")],
)
def test_java_leaves_a_driver_alone_that_ended_the_process(
    on_java: tuple[Path, Run],
    model: onnx.ModelProto,
    failing: Path,
    name: str,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(failing))
    monkeypatch.setenv(name, fault)
    with pytest.raises(AssertionError):  # the first start dies
        on_java[1]("run", tmp_path, "auto")
    assert (tmp_path / "lookup-vulkan.trying").exists()
    for _ in range(2):
        lines = on_java[1]("run", tmp_path, "auto")
        right(model, lines[:6])
        assert f"vulkan fails ({LEFT_ALONE}" in lines[6]
    assert on_java[1]("run", tmp_path, "vulkan")[0].startswith(f"DeviceException: {LEFT_ALONE}")
    *names, reason = on_java[1]("devices", tmp_path)
    assert reason.startswith(LEFT_ALONE)
    assert not [name for name in names if name.startswith("vulkan")]
    monkeypatch.delenv(name)
    (tmp_path / "lookup-vulkan.trying").unlink()
    assert on_java[1]("run", tmp_path, "vulkan")[6] == "vulkan|"


@needs_java
def test_a_list_of_devices_marks_the_driver(
    on_java: tuple[Path, Run], failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(failing))
    monkeypatch.setenv("LACKING", "life")
    with pytest.raises(AssertionError):
        on_java[1]("devices", tmp_path)
    assert on_java[1]("devices", tmp_path)[-1].startswith(LEFT_ALONE)
    (tmp_path / "lookup-vulkan.trying").write_text("another build")
    with pytest.raises(AssertionError):
        on_java[1]("devices", tmp_path)


@needs_java
def test_java_does_not_choose_a_device_that_is_wrong(
    on_java: tuple[Path, Run], model: onnx.ModelProto, failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(failing))
    monkeypatch.setenv("LACKING", "results")
    lines = on_java[1]("run", tmp_path, "auto")
    for start in (0, 7, 14):
        right(model, lines[start : start + 6])
    # What memory held before may also be no place in the table.
    assert re.search(r"vulkan fails \((its output 0 is not that of the CPU|the value of 'places')", lines[6])
    assert not lines[6].startswith("vulkan")
