"""The encoders as jagged nested tensors give the results of the ONNX models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.ragged.batches import batch_of
from bench.ragged.models import MODELS, TOLERANCE
from deploykit.checks import reference
from deploykit.checks.comparison import compare


@pytest.mark.parametrize("name", MODELS)
def test_a_jagged_encoder_gives_the_results_of_the_model(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from bench.ragged import jagged

    model, path = MODELS[name], tmp_path / "model.onnx"
    onnx.save(model.make(2), path)
    batch = batch_of(model, np.array([5, 1, 12]))
    expected = reference.load(path, "onnxruntime", 1)(batch.padded())[model.output]
    found = jagged.load(path, 1)(batch.packed())[model.output]
    assert compare(model.output, found, batch.valid(expected), TOLERANCE).within
