"""The lengths of sequences as values of a model: counted from a mask, or an input of the padded model."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from tvm import tirx

import deploykit
from deploykit.compiler.ragged.conversion.states import LENGTH, VALID, along, binary, constant, converted, join, summed
from tests.runtimes import Runtime

BOUNDS = {"batch": (1, 8), "seq": (1, 9)}
MASKED = "p = Unsqueeze(inside, axis2)  f = Cast<to = 1>(p)  m = Mul(x, f)  y = ReduceSum<keepdims = 0>(m, axis1)"
POSITIONS = "shape = Shape(x)  n = Gather(shape, one)  at = Range(zero, n, one)  r = Unsqueeze(at, axis0)"
KEPT = {
    "less": f"c = Unsqueeze(lens, axis1)  inside = Less(r, c)  {MASKED}",
    "greater": f"c = Unsqueeze(lens, axis1)  inside = Greater(c, r)  {MASKED}",
    "outside": f"c = Unsqueeze(lens, axis1)  outside = GreaterOrEqual(r, c)  inside = Not(outside)  {MASKED}",
    "floats": (
        f"c0 = Cast<to = 1>(lens)  c = Unsqueeze(c0, axis1)  rf = Cast<to = 1>(r)  inside = Less(rf, c)  {MASKED}"
    ),
}
LEAKING = {
    "at-most": f"c = Unsqueeze(lens, axis1)  inside = LessOrEqual(r, c)  {MASKED}",
    "one-more": f"k = Add(lens, one)  c = Unsqueeze(k, axis1)  inside = Less(r, c)  {MASKED}",
    "sum": f"k = ReduceSum<keepdims = 0>(lens, axis0)  inside = Less(r, k)  {MASKED}",
    "next": f"k = Gather(lens, other)  c = Unsqueeze(k, axis1)  inside = Less(r, c)  {MASKED}",
    "bytes": f"b = Cast<to = 3>(lens)  k = Cast<to = 7>(b)  c = Unsqueeze(k, axis1)  inside = Less(r, c)  {MASKED}",
    "complement": f"c = Unsqueeze(lens, axis1)  outside = Less(r, c)  inside = Not(outside)  {MASKED}",
}


def model(nodes: str) -> onnx.ModelProto:
    found = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[batch,seq,3] x, int64[batch] lens) => (float[batch,3] y) {{ {POSITIONS}  {nodes} }}"""
    )
    constants = {"one": np.array(1), "zero": np.array(0), "other": np.array([0])}
    constants |= {f"axis{axis}": np.array([axis]) for axis in range(3)}
    found.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return found


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("name", KEPT)
def test_positions_before_the_length_are_a_mask(name: str, runtime: Runtime) -> None:
    with runtime.session(model(KEPT[name]), dims=BOUNDS, ragged="seq") as session:
        assert [port.name for port in session.manifest.inputs] == ["x", "lengths"]
        for lengths in ((1,), (9,), (3, 3), (0, 4, 1, 0, 9)):
            rng = np.random.default_rng(sum(lengths))
            instances = [rng.standard_normal((length, 3), dtype=np.float32) for length in lengths]
            expected = np.stack([instance.sum(axis=0) for instance in instances])
            np.testing.assert_allclose(session(x=instances)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LEAKING)
def test_other_numbers_are_no_lengths(name: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq'"):
        deploykit.load(model(LEAKING[name]), BOUNDS, ragged="seq")


def test_of_two_inputs_of_lengths_none_is_taken() -> None:
    found = model(f"c = Unsqueeze(lens, axis1)  inside = Less(r, c)  {MASKED}")
    other = onnx.helper.make_tensor_value_info("other_lens", onnx.TensorProto.INT64, ["batch"])
    found.graph.input.append(other)
    found.graph.node.append(onnx.helper.make_node("Identity", ["other_lens"], ["same"]))
    found.graph.output.append(onnx.helper.make_tensor_value_info("same", onnx.TensorProto.INT64, ["batch"]))
    with pytest.raises(deploykit.UnsupportedModelError, match="'seq'"):
        deploykit.load(found, BOUNDS, ragged="seq")
    kept = deploykit.load(found, BOUNDS, ragged="seq", masks=["lens"])
    assert [port.name for port in kept.only.inputs] == ["x", "other_lens", "lengths"]


def test_the_state_of_lengths() -> None:
    """A length stays one in a wider number and in a copy; whatever is computed with it is another number."""
    assert converted(LENGTH, "float32") == converted(LENGTH, "int32") == LENGTH
    assert converted(LENGTH, "int8") == converted(LENGTH, "float16") == converted(LENGTH, "bool") == VALID
    assert binary(tirx.Add, LENGTH, constant(0)) == binary(tirx.Mul, constant(1), LENGTH) == LENGTH
    assert binary(tirx.Add, LENGTH, constant(1)) == binary(tirx.Add, LENGTH, LENGTH) == VALID
    assert binary(tirx.Max, LENGTH, constant(1)) == binary(tirx.Mul, LENGTH, constant(2)) == VALID
    assert join((LENGTH, LENGTH)) == LENGTH
    assert join((LENGTH, VALID)) == join((LENGTH, constant(3))) == VALID
    assert along(tirx.Add, LENGTH) == summed(tirx.Add, LENGTH, constant(0)) == VALID
