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


def test_limits_of_the_emulator(model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deploykit.build(model, cpu="armv8-a", output=tmp_path / "dist")
    with pytest.raises(UsageError, match="under an emulator it has one thread"):
        deploykit.open(tmp_path / "dist", threads=2)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"the artifact is for aarch64, .* install QEMU"):
        deploykit.open(tmp_path / "dist")
