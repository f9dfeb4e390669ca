"""Whole networks with random weights against ONNX Runtime: the constants of the stored models hide most mistakes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import deploykit
from bench.models.light import with_random_weights
from deploykit.verify import verify


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [("squeezenet", "host"), ("squeezenet", "embedded"), ("shufflenet", "host"), ("resnet50", "host")],
)
def test_a_network_agrees_with_onnxruntime(name: str, target: str, tmp_path: Path) -> None:
    onnx.save(with_random_weights(name), tmp_path / "model.onnx")
    deploykit.build(tmp_path / "model.onnx", target=target, output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        report = verify(session, tmp_path / "model.onnx")
    assert report.within, report
