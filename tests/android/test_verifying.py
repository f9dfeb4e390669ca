"""`verify` of artifacts for Android: of one without a model file, and where an emulator lacks something."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

import deploykit
from deploykit import doctor
from deploykit.engines.native import bionic
from deploykit.errors import ToolchainError, UsageError
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import needs_java
from tests.frontends.huggingface.test_texts import folder_of


@pytest.mark.slow
@needs_java
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")
def test_a_folder_is_compared_with_its_build_for_the_host(tmp_path: Path) -> None:
    for name, label in (("model", "good"), ("other", "bad")):
        folder_of(tmp_path / name, "bert-classes", id2label={"0": "x", "1": label})
    deploykit.build(tmp_path / "model", AndroidTarget(["x86_64"]), output=tmp_path / "aar")
    for name in ("model", "other"):
        deploykit.build(tmp_path / name, output=tmp_path / f"{name}-host")
    with pytest.raises(UsageError, match="build that for the host, too, and name the artifact with --model"):
        deploykit.verify(tmp_path / "aar")
    ids = {"input_ids": "random:0:0..9"}
    report = deploykit.verify(tmp_path / "aar", tmp_path / "model-host", inputs=ids)
    assert report.within
    assert report.reference == f"the artifact {tmp_path / 'model-host'}"
    assert all(check.differences for check in report.checks)
    with pytest.raises(UsageError, match="other-host was built from another model"):
        deploykit.verify(tmp_path / "aar", tmp_path / "other-host", inputs=ids)


def test_an_emulator_without_a_c_library(libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not bionic.can_run("aarch64") or platform.machine() == "aarch64":
        pytest.skip("needs QEMU for 64-bit Arm")
    for abi, machine, name in (("arm64-v8a", "aarch64", "arm64"), ("armeabi-v7a", "arm", "armel")):
        *system, _ = bionic._SYSTEMS[machine]
        monkeypatch.setitem(bionic._SYSTEMS, machine, (*system, str(tmp_path / "nowhere")))
        monkeypatch.setenv("DEPLOYKIT_ABI", abi)
        with pytest.raises(ToolchainError, match=rf"needs a C library for it .*install libc6-dev-{name}-cross"):
            deploykit.open(libraries)
        (tool,) = (found for found in doctor.diagnose().findings if found.name == f"qemu-{machine}")
        assert not tool.found
        assert f"libc6-dev-{name}-cross" in tool.install
