"""The models of the benchmark: each compiles, and agrees with ONNX Runtime at all measured sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import deploykit
from bench.cases import CASES, GENERATED
from bench.models import MODELS
from bench.models.cnn import cnn
from bench.models.quantized import quantize
from deploykit.checks.verify import verify

SMALL = ("cnn", "dscnn", "encoder", "lstm", "mlp", "tcn")
LARGE = [case.name for case in GENERATED if case.name not in SMALL]


def test_every_generated_model_is_measured() -> None:
    assert sorted(MODELS) == sorted(case.name for case in GENERATED)


def test_models_are_the_same_each_time() -> None:
    for name in SMALL:
        first, second = (MODELS[name]().SerializeToString(deterministic=True) for _ in range(2))
        assert first == second


@pytest.mark.sampled(part=10)
@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_a_model_agrees_with_onnxruntime(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / f"{name}.onnx"
    onnx.save(case.make(), path)
    deploykit.build(path, dims=case.dims, output=tmp_path / "dist")
    at = {dim: tuple(dict.fromkeys(sizes[dim] for sizes in case.sizes)) for dim in case.dims}
    report = verify(tmp_path / "dist", path, at=at, inputs=case.sources, tolerance=case.tolerance)
    assert report.within, report


def test_a_quantized_model_computes_about_the_same() -> None:
    images = np.random.default_rng(1).standard_normal((4, 1, 28, 28), dtype=np.float32)
    model = cnn()
    small = quantize(model, {"image": images})
    integers = [tensor.data_type for tensor in small.graph.initializer if tensor.name.endswith("_quantized")]
    assert set(integers) == {onnx.TensorProto.INT8, onnx.TensorProto.INT32}
    exact, approximate = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"image": images})[0] for m in (model, small)
    )
    assert np.abs(exact - approximate).max() < 0.05 * np.abs(exact).max()
