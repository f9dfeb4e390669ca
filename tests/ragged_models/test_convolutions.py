"""Convolutions along a ragged dim give what they give for each sequence alone, if the padding before them is masked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import deploykit
from tests.runtimes import Runtime
from tests.zoo.judge import TOLERANCE, distance

BOUNDS = {"batch": (1, 16), "seq": (1, 9)}
LENGTHS = ((1,), (9,), (3, 3), (5, 2, 1, 4), (1, 2, 1, 9), (0,), (0, 5, 0, 2))

WIDTHS = {
    "three": (3, 1, "pads = [1, 1]"),
    "grouped": (5, 2, "pads = [2, 2], group = 2"),
    "even": (4, 1, "pads = [2, 1]"),
    "dilated": (3, 1, "pads = [2, 2], dilations = [2]"),
    "causal": (4, 4, "pads = [3, 0], group = 4"),
    "wider-than-a-sequence": (11, 1, "pads = [5, 5]"),
}
"""Widths, groups, and attributes of convolutions of 4 channels."""


def model(name: str, *, masked: bool = True) -> onnx.ModelProto:
    width, groups, attributes = WIDTHS[name]
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[batch,seq,4] x, int64[batch,seq] attention_mask) => (float[batch,seq,4] y) {{
        k = Cast<to = 1>(attention_mask)  m = Unsqueeze(k, last)  shown = Mul(x, m)
        t = Transpose<perm = [0, 2, 1]>({"shown" if masked else "x"})
        c = Conv<{attributes}>(t, w, b)
        r = Transpose<perm = [0, 2, 1]>(c)  s = Add(r, x)  g = Tanh(s)  y = Mul(g, m) }}"""
    found = onnx.parser.parse_model(text)
    rng = np.random.default_rng(width)
    constants = {
        "w": rng.standard_normal((4, 4 // groups, width), dtype=np.float32) / 2,
        "b": rng.standard_normal(4, dtype=np.float32),
        "last": np.array([2]),
    }
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return found


def check(reference: onnxruntime.InferenceSession, session: deploykit.Session, lengths: Sequence[int]) -> None:
    rng = np.random.default_rng(sum(lengths))
    instances = [rng.standard_normal((length, 4), dtype=np.float32) for length in lengths]
    for instance, result in zip(instances, session(x=instances)["y"], strict=True):
        assert np.shape(result) == instance.shape
        if len(instance):
            ones = np.ones((1, len(instance)), np.int64)
            (expected,) = reference.run(None, {"x": instance[None], "attention_mask": ones})
            assert distance(np.asarray(result), expected[0]) < TOLERANCE


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("name", WIDTHS)
def test_each_sequence_is_as_alone(name: str, runtime: Runtime) -> None:
    found = model(name)
    reference = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    with runtime.session(found, dims=BOUNDS, ragged="seq") as session:
        for lengths in LENGTHS:
            check(reference, session, lengths)


def test_padding_that_is_not_masked_is_refused() -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="along 'seq', and the padding is not masked"):
        deploykit.load(model("three", masked=False), BOUNDS, ragged="seq")
