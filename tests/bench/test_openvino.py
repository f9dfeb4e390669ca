"""OpenVINO as a peer, where it is installed: the same results on as many threads, within the bounds of the dims."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.cases import CASES
from bench.peers import PEERS
from deploykit.checks.comparison import compare
from deploykit.errors import UnsupportedModelError

openvino = pytest.importorskip("openvino")


def inputs(model: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    arrays = {}
    for value in model.graph.input:
        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        numbers = random.integers(0, 2, shape) if dtype.kind in "iu" else random.standard_normal(shape)
        arrays[value.name] = numbers.astype(dtype)
    return arrays


@pytest.mark.parametrize("name", ["cnn", "dscnn", "encoder", "lstm", "mlp"])
def test_it_has_the_results_of_onnxruntime(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "model.onnx"
    model = case.make()
    onnx.save(model, path)
    theirs, reference = (PEERS[side].load(path, 1, case.dims) for side in ("openvino", "onnxruntime"))
    # OpenVINO 2026.4 computes wrong results for `encoder` where every dim was 1 in its first run.
    for fraction in (0.3, 0, 1, 0.3):
        sizes = {dim: low + int(fraction * (high - low)) for dim, (low, high) in case.dims.items()}
        arrays = inputs(model, sizes)
        found, expected = theirs(arrays), reference(arrays)
        assert found.keys() == expected.keys()
        assert all(compare(key, expected[key], found[key], case.tolerance).within for key in expected)


def test_dims_have_the_bounds_of_the_artifact(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(CASES["mlp"].make(), path)
    run = PEERS["openvino"].load(path, 1, {"batch": (2, 3)})
    assert run({"x": np.ones((3, 64), np.float32)})["probabilities"].shape == (3, 10)
    with pytest.raises(RuntimeError, match="shape"):
        run({"x": np.ones((4, 64), np.float32)})


def test_other_numbers_of_threads_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(CASES["mlp"].make(), path)
    with pytest.raises(UnsupportedModelError, match="thread"):
        PEERS["openvino"].load(path, 4096, {})
