"""Nodes whose operands or attributes do not fit their operator are refused by name, not as a defect of deploykit."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import deploykit
from deploykit import ShapeError, UnsupportedModelError
from tests.frontends.onnx.harness import Check, numbers, parse

INPUTS = (
    "float[n,3,4] x, float[n,c,4,4] image, float[4,2,3,3] w, bool[n,3] b, int64 k, int64[2] two, int64[2,1] column, "
    "int64[1,1,2,2] places, float[1,1,2,2] patch, float[4] s, float[1,8,2] gates, float[2,2,4,8] q, float[2,6,8] v"
)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("Slice (x, column, two, two)", "'column' has 2 axes; it must have 1"),
        ("Unsqueeze (x, k)", "'k' has 0 axes; it must have 1"),
        ("Squeeze (x, k)", "'k' has 0 axes; it must have 1"),
        ("ReduceMax (x, k)", "'k' has 0 axes; it must have 1"),
        ("Reshape (x, column)", "'column' has 2 axes; it must have 1"),
        ("OneHot (two, two, s)", "'two' has 2 elements; it must have one"),
        ("Trilu (s)", "rank 1"),
        ("CenterCropPad <axes = [0]> (x, two)", "2 sizes for 1 axes"),
        ("Resize <axes = [1]> (x, , , two)", "2 sizes for 1 axes"),
        ("GroupNormalization <num_groups = 0> (x, s, s)", "0 groups of channels"),
        ("ConvTranspose <group = 0> (image, w)", "0 groups of channels"),
        ("ConvTranspose <output_shape = [4]> (image, w)", "'output_shape' has 1 sizes for 2 spatial axes"),
        ("MaxUnpool <kernel_shape = [2, 2], pads = [1]> (patch, places)", "'pads' has 1 entries, expected 4"),
        ("ScatterElements (x, two, s)", "'two' has 1 axes; it must have 3"),
        ("Attention <q_num_heads = 0, kv_num_heads = 0> (v, v, v)", "split into 0 heads"),
        ("RotaryEmbedding <num_heads = 0> (v, v, v)", "split into 0 heads"),
        ("ConvTranspose (image, x)", "'x' has 3 axes; it must have 4"),
        ("Conv (q, q, q)", "'q' has 4 axes; it must have 1"),
        ("GatherND <batch_dims = -1> (x, column)", "after -1 batch axes"),
        ("HannWindow (two)", "'two' has 2 elements; it must have one"),
        ("RNN <hidden_size = 2> (x, gates, patch)", "'patch' has 4 axes; it must have 3"),
        ("RotaryEmbedding (q, v, v, column)", "'v' has 3 axes; it must have 2"),
        ("Attention (q, q, v)", "'v' has 3 axes; it must have 4"),
        ("Attention (q, q, q, , , , column)", "'column' has 2 axes; it must have 1"),
    ],
)
def test_refused_by_name(call: str, words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        deploykit.load(parse(f"({INPUTS}) => (float[d] y) {{ y = {call} }}", 24))


@pytest.mark.parametrize(
    "call",
    [
        "If(c) <then_branch = t (float a) => (float r) { r = Neg(a) }, else_branch = e () => (float r) { r = Abs(s) }>",
        "Loop (m, c, s) <body = g (int64 i, bool d) => (bool d, float r) { r = Neg (s) }>",
        "Scan <num_scan_inputs = 1, body = g (float a, float b) => (float r) { r = Add (a, b) }> (x)",
    ],
)
def test_subgraphs_with_wrong_inputs_or_outputs_are_refused(call: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"its graph '.*' has .* inputs and .* outputs; it must have"):
        deploykit.load(parse(f"(bool c, float s, int64 m, float[n] x) => (float y) {{ y = {call} }}"))


def test_dtypes_in_a_branch_are_checked() -> None:
    text = """(uint32[n] u, int64[n] i, bool c) => (bool[n] y) { y = If (c) <
        then_branch = t () => (bool[n] a) { a = Equal (u, i) }, else_branch = e () => (bool[n] d) { d = Equal (i, u) }
    > }"""
    with pytest.raises(UnsupportedModelError, match="uint32 and int64; they must be of one type"):
        deploykit.load(parse(text))


def test_a_missing_input_of_an_operator_without_a_schema() -> None:
    """ONNX's checker does not know LessOrEqual before opset 12."""
    with pytest.raises(UnsupportedModelError, match=r"LessOrEqual .*: it has 1 input, and the operator takes 2"):
        deploykit.load(parse("(float[n] x) => (bool[n] y) { y = LessOrEqual (x) }", 9))


def test_invalid_shape_arithmetic_is_a_fault_of_the_model() -> None:
    shape = "s = Shape (x) five = Constant <value_ints = [5]> () zero = Constant <value_ints = [0]> ()"
    for call in (
        "Gather (s, five)",
        "Reshape (s, five)",
        "Squeeze (s, zero)",
        "Concat <axis = 1> (s, s)",
        "Add (s, t)",
    ):
        text = f"(float[n, m] x) => (int64[d] y) {{ {shape} t = Concat <axis = 0> (s, five) y = {call} }}"
        with pytest.raises(UnsupportedModelError, match=call.split(maxsplit=1)[0]):
            deploykit.load(parse(text))


def test_constant_parameters_of_symbolic_channels(check: Check) -> None:
    """A run with as many channels as parameters is right. Other numbers of channels are refused."""
    model = parse("(float[n, c, 2] x) => (float[n, c, 2] y) { y = BatchNormalization (x, p, p, p, p) }")
    model.graph.initializer.append(helper.make_tensor("p", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]))
    check(model, {"x": numbers(2, 3, 2)}, {"x": numbers(1, 3, 2)})
    with check.runtime.session(model) as session, pytest.raises(ShapeError, match="channels"):
        session.run({"x": np.zeros((2, 4, 2), np.float32)})
