"""Models that amplify rounding: differences that rounding explains are not judged, and defects still are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import deploykit
from deploykit.checks.comparison import SLACK, Difference, Tolerance, compare
from deploykit.checks.rounding import move_weights, moved, spreads
from deploykit.checks.verify import Report, undecided, verify


def differences(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Difference]:
    return [compare("y", actual["y"], expected["y"])]


VARIANCE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 256] x) => (float[n, 1] y) {
  product = MatMul(x, w)
  h = Add(product, bias)
  mean = ReduceMean<axes = [1]>(h)
  squares = Mul(h, h)
  mean_of_squares = ReduceMean<axes = [1]>(squares)
  square_of_mean = Mul(mean, mean)
  y = Sub(mean_of_squares, square_of_mean)
}"""

DENSE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 256] x) => (float[n, 256] y) {
  y = MatMul(x, w)
}"""

# The scales are powers of two, so many products are exactly half-way between two steps of y.
QUANTISED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 64] x) => (float[n, 32] y)
<float xs = {0.03125}, float ws = {0.0078125}, float ys = {0.0625}, int8 z = {0}> {
  xq = QuantizeLinear(x, xs, z)
  xd = DequantizeLinear(xq, xs, z)
  wd = DequantizeLinear(w, ws, z)
  product = MatMul(xd, wd)
  q = QuantizeLinear(product, ys, z)
  y = DequantizeLinear(q, ys, z)
}"""

BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3] x, bool c) => (float[n, 3] y)
<float threshold = {0.5}, float[2] sizes = {0.1, 0.2}, float[3, 3] mask = {1, 0, 0, 1, 1, 0, 1, 1, 1},
 int8[3, 3] steps = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float scale = {0.1}, float other = {0.1}> {
  weight = DequantizeLinear(steps, scale)
  y = If (c) <
    then_branch = t () => (float[n, 3] p) {
      inner = Constant<value = float[3, 3] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}>()
      p = MatMul(x, inner)
    },
    else_branch = e () => (float[n, 3] q) { q = MatMul(x, weight) }
  >
}"""


def model(text: str, **constants: np.ndarray) -> onnx.ModelProto:
    proto = parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return proto


def variance() -> onnx.ModelProto:
    return model(VARIANCE, w=dense(), bias=np.linspace(999, 1001, 256, dtype=np.float32))


def dense() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((256, 256), dtype=np.float32) / 16


def verified(folder: Path, proto: onnx.ModelProto, built: onnx.ModelProto | None = None) -> Report:
    """The report of `verify` for an artifact of `built`, by default of `proto`, against `proto`."""
    onnx.save(proto, folder / "model.onnx")
    deploykit.build(built or proto, output=folder / "dist", cpu="x86-64-v3")
    return verify(folder / "dist", folder / "model.onnx")


def test_an_output_that_rounding_moves_is_undecided(tmp_path: Path) -> None:
    report = verified(tmp_path, variance())
    assert not report.within
    assert not report.wrong
    notes = list(undecided(report))
    assert notes
    assert all("output 'y' at n=" in note and "not judged" in note for note in notes)


def test_who_gives_a_tolerance_means_it(tmp_path: Path) -> None:
    verified(tmp_path, variance())
    assert verify(tmp_path / "dist", tmp_path / "model.onnx", tolerance=Tolerance(1e-3, 1e-5)).wrong


def test_a_wrong_weight_is_wrong_in_a_model_that_amplifies_nothing(tmp_path: Path) -> None:
    changed = dense()
    changed[7, 9] += 0.01
    report = verified(tmp_path, model(DENSE, w=dense()), model(DENSE, w=changed))
    assert report.wrong
    assert not list(undecided(report))


def test_a_wrong_weight_is_wrong_in_a_quantised_model(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).integers(-40, 40, (64, 32)).astype(np.int8)
    assert verified(tmp_path, model(QUANTISED, w=weight)).within
    changed = weight.copy()
    changed[7, 9] += 80
    report = verified(tmp_path, model(QUANTISED, w=weight), model(QUANTISED, w=changed))
    assert report.wrong
    roundings = [difference.roundings for check in report.checks for difference in check.differences]
    assert max(number for number in roundings if number) > SLACK, "rounding moves these, but not so far"


def test_weights_in_other_files_are_moved(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    x = np.random.default_rng(0).standard_normal((3, 256), dtype=np.float32)
    onnx.save(model(DENSE, w=dense()), path, save_as_external_data=True)
    assert (tmp_path / "model.onnx").stat().st_size < 1000
    (difference,) = spreads(path, "onnxruntime", {"x": x}, {"y": x @ dense()}, differences).values()
    assert 0 < difference.absolute < 1e-5
    assert 0 < difference.tolerances < 1


@pytest.mark.parametrize("reference", ["onnxruntime", "onnx"])
def test_a_run_that_fails_or_gives_other_shapes_tells_nothing(tmp_path: Path, reference: str) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model(DENSE, w=dense()), path)
    x = np.ones((3, 256), np.float32)
    assert spreads(path, reference, {"x": x}, {"y": np.zeros((3, 256), np.float32)}, differences).keys() == {"y"}
    assert not spreads(path, reference, {"x": x}, {"y": np.zeros((3, 99), np.float32)}, differences)
    assert not spreads(path, reference, {"x": x[:, 1:]}, {"y": np.zeros((3, 256), np.float32)}, differences)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_floats_move_to_their_neighbours(dtype: type) -> None:
    array = np.array([0.1, -0.1, 0.7, 1e-7] * 50, dtype)
    eps = np.array(ml_dtypes.finfo(dtype).eps, np.float64)
    change = moved(array, np.random.default_rng(0)).astype(np.float64) / array.astype(np.float64) - 1
    assert (np.abs(change) > 0).all()
    assert (np.abs(change[array.astype(np.float64) > 1e-3]) <= eps).all()
    assert len({*np.sign(change)}) == 2


def test_whole_numbers_stay() -> None:
    array = np.array([0, -0.0, 1, -3, np.inf, -np.inf, np.nan, np.finfo(np.float32).min], np.float32)
    assert moved(array, np.random.default_rng(0)).tobytes() == array.tobytes()
    integers = np.arange(5)
    assert moved(integers, np.random.default_rng(0)) is integers


def test_which_constants_move() -> None:
    """Weights and the scales of integer weights move, also in branches. Masks and constants of a few elements stay."""
    before, after = (dict(_tensors(proto.graph)) for proto in (parser.parse_model(BRANCHES), moved_weights(BRANCHES)))
    assert {name for name in before if (before[name] != after[name]).any()} == {"scale", "inner"}
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=2e-7)


def moved_weights(text: str) -> onnx.ModelProto:
    proto = parser.parse_model(text)
    move_weights(proto, np.random.default_rng(0))
    return proto


def _tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, np.ndarray]]:
    yield from ((tensor.name, numpy_helper.to_array(tensor)) for tensor in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            yield from _tensors(attribute.g)
            if attribute.name == "value":
                yield node.output[0], numpy_helper.to_array(attribute.t)


def test_the_same_numbers_move_each_time() -> None:
    first, second = model(DENSE, w=dense()), model(DENSE, w=dense())
    for proto in (first, second):
        move_weights(proto, np.random.default_rng(0))
    assert first.SerializeToString() == second.SerializeToString() != model(DENSE, w=dense()).SerializeToString()


def errors(absolute: float, tolerances: float, mean: float) -> Difference:
    return Difference("y", "float32", (9,), absolute, outside=1, tolerances=tolerances, mean_tolerances=mean)


def test_one_element_that_moves_explains_no_error_of_others() -> None:
    fault = errors(1.0, 1000.0, 500.0)
    assert fault.in_roundings(errors(100.0, 0.1, 0.05)).wrong, "a large element moves"
    assert fault.in_roundings(errors(1e-3, 1e4, 5e3)).wrong, "one near zero moves"
    assert fault.in_roundings(errors(1.0, 1000.0, 10.0)).wrong, "few move"
    explained = fault.in_roundings(errors(0.5, 200.0, 125.0))
    assert (explained.roundings, explained.undecided, explained.wrong) == (5.0, True, False)


@pytest.mark.parametrize("size", [0.0, np.inf])
def test_no_spread_and_one_without_bound_explain_nothing(size: float) -> None:
    assert errors(1.0, 1000.0, 500.0).in_roundings(errors(size, size, size)).wrong
