"""Whole networks with random weights against ONNX Runtime. The stored models have constant weights, which hide most
errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

import deploykit
from bench.models.light import with_random_weights
from deploykit.checks.verify import verify
from deploykit.engines.web.chromium import find_chromium

NEEDS_NODE = pytest.mark.skipif(not shutil.which("node"), reason="needs node")
NEEDS_CHROMIUM = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "device"),
    [
        ("squeezenet", "host", None),
        ("squeezenet", "embedded", None),
        ("shufflenet", "host", None),
        ("resnet50", "host", None),
        pytest.param("squeezenet", "webgpu", "wasm", marks=NEEDS_NODE),
        pytest.param("shufflenet", "webgpu", "webgpu", marks=NEEDS_CHROMIUM),
    ],
)
def test_a_network_agrees_with_onnxruntime(name: str, target: str, device: str | None, tmp_path: Path) -> None:
    """`python -m tests.conformance.light` verifies all networks on both devices of the web."""
    onnx.save(with_random_weights(name), tmp_path / "model.onnx")
    deploykit.build(tmp_path / "model.onnx", target=target, output=tmp_path / "dist")
    report = verify(tmp_path / "dist", tmp_path / "model.onnx", device=device)
    assert report.within, report
