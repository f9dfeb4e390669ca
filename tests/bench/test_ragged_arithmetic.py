"""Counting of the arithmetic of ragged batches: instructions as objdump prints them, and a run under valgrind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.ragged.arithmetic import Arithmetic, missing, operations
from bench.ragged.models import MODELS
from tests.bench.commands import ran

LISTING = """
0000000000401000 <kernel>:
  401000:\tvfmadd231ps (%rax),%ymm1,%ymm2
  401005:\tvaddps %xmm1,%xmm2,%xmm3
  40100a:\tvmulsd %xmm1,%xmm2,%xmm3
  40100f:\tvfnmadd213ss %xmm1,%xmm2,%xmm3
  401014:\tdivpd  %xmm1,%xmm2
  401019:\tvmaxps %ymm1,%ymm2,%ymm3
  40101e:\taddq   $0x8,%rax
  401023:\tvpaddd %ymm1,%ymm2,%ymm3
"""


def test_operations_of_instructions() -> None:
    assert operations(LISTING) == {0x401000: 16, 0x401005: 4, 0x40100A: 1, 0x40100F: 2, 0x401014: 2}


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_layer_executes_its_operations(tmp_path: Path) -> None:
    model = MODELS["minilm"]
    onnx.save(model.make(1), tmp_path / "minilm.onnx")
    counter = Arithmetic(model, tmp_path / "minilm.onnx", {"batch": (1, 4), "seq": (1, 32)}, tmp_path)
    tokens, width, hidden = 8, 384, 1536
    products = 2 * tokens * (4 * width**2 + 2 * width * hidden) + 4 * width * tokens**2
    assert products < counter.count(np.array([tokens])) < 1.05 * products
    assert 0.95 < counter.share(np.array([8, 3, 8])) < 1.02


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_a_run_with_counts(tmp_path: Path) -> None:
    options = ("--quick", "--model", "minilm", "--count", "--peers", "onnxruntime", "--output", tmp_path)
    result = ran("bench.ragged", *options)
    assert "of the ideal operations" in " ".join(result.stdout.split())
    (row,) = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert 0.95 < row["counted"] < 1.02
