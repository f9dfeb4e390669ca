"""Kernels read 8-bit integers where they would read floats of a feature map, with the results of kernels that are not
fused, and as good as ONNX Runtime's. In C they have the same bits; native kernels fuse multiplication and addition."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import deploykit
from deploykit.artifact.plan import LISTING
from tests.frontends.onnx.test_dequantized import Qdq, conv

CHANNELS = 20


def two(g: Qdq, operator: str, **attributes: Any) -> str:
    """`operator` of two branches."""
    return g.node(operator, map_of(g), map_of(g), **attributes)


def map_of(g: Qdq) -> str:
    return g.through(conv(g, CHANNELS, 3, 3, pads=[1] * 4))


READERS = {
    "global-average": lambda g: g.node("GlobalAveragePool", map_of(g)),
    "average": lambda g: g.node("AveragePool", map_of(g), kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]),
    "max": lambda g: g.node("MaxPool", map_of(g), kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
    "mean": lambda g: g.node("ReduceMean", map_of(g), axes=[2, 3]),
    "mean-of-channels": lambda g: g.node("ReduceMean", map_of(g), axes=[1]),
    "largest": lambda g: g.node("ReduceMax", map_of(g), axes=[2]),
    "norm": lambda g: g.node("ReduceL2", map_of(g), axes=[1, 2, 3]),
    "softmax": lambda g: g.node("Softmax", map_of(g), axis=1),
    "sum": lambda g: two(g, "Add"),
    "product": lambda g: two(g, "Mul"),
    "concat": lambda g: two(g, "Concat", axis=1),
    "relu": lambda g: g.node("Relu", map_of(g)),
    "hard-swish": lambda g: g.node("HardSwish", map_of(g)),
    "transpose": lambda g: g.node("Transpose", map_of(g), perm=[0, 3, 1, 2]),
    "flatten": lambda g: g.node("Flatten", map_of(g), axis=2),
    "pad": lambda g: g.node("Pad", map_of(g), g.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2]))),
    "slice": lambda g: g.node("Slice", map_of(g), *(g.constant(np.array([n])) for n in (0, 2, 2))),
}
"""From an image to a tensor that is quantised."""

UNITS = 6
"""What one unit of both branches is in units of the result."""

RANKS = {"flatten": 2}


@pytest.mark.parametrize("target", ["host", "embedded"])
@pytest.mark.parametrize("name", READERS)
def test_no_floats_of_a_feature_map(tmp_path: Path, name: str, target: str) -> None:
    builder = Qdq("int8")
    model = builder.model(READERS[name](builder), ["n", 3, "h", "w"], RANKS.get(name, 4))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    bounds = {"n": (1, 3), "h": (1, 16), "w": (1, 17)}
    for place, fuse in (("fused", True), ("apart", False)):
        deploykit.build(model, target, bounds, tmp_path / place, fuse=fuse, check=False)
    wide = re.findall(r"^.*: float32.* @ arena.*$", (tmp_path / "fused" / LISTING).read_text(), re.MULTILINE)
    assert wide == []
    with deploykit.open(tmp_path / "fused") as fused, deploykit.open(tmp_path / "apart") as apart:
        for size in ((1, 3, 9, 14), (3, 3, 16, 17), (2, 3, 1, 1)):
            x = np.random.default_rng(1).standard_normal(size, dtype=np.float32)
            (expected,), got = reference.run(None, {"x": x}), fused(x=x)["y"]
            np.testing.assert_array_equal(got, apart(x=x)["y"])
            difference = np.abs(got.astype(np.int32) - expected.astype(np.int32))
            assert difference.max() <= UNITS, size
            assert (difference > 0).mean() < 0.03, size


FLOATS = """<ir_version: 8, opset_import: ["" : 17]> g (int8[n, 20, h, w] x)
    => (float[n, 20, p, q] pooled, float[n, 20, i, j] averages, float[n, 20] means, float[n, 20, h, w] shares)
    <float scale = {0.0217}, int8 zero = {-28}> {
    d = DequantizeLinear(x, scale, zero)
    pooled = GlobalAveragePool(d)
    averages = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(d)
    means = ReduceMean<axes = [2, 3], keepdims = 0>(d)
    shares = Softmax<axis = 3>(d)
}"""


@pytest.mark.parametrize("target", ["host", "embedded"])
def test_floats_before_they_are_rounded_to_integers(tmp_path: Path, target: str) -> None:
    model, bounds = onnx.parser.parse_model(FLOATS), {"n": (1, 2), "h": (1, 25), "w": (1, 8)}
    for fuse in (True, False):
        deploykit.build(model, target, bounds, tmp_path / str(fuse), fuse=fuse, check=False)
    with deploykit.open(tmp_path / "True") as fused, deploykit.open(tmp_path / "False") as apart:
        for size in ((2, 20, 25, 5), (1, 20, 7, 8), (1, 20, 1, 1)):
            x = np.random.default_rng(0).integers(-128, 128, size).astype(np.int8)
            expected = apart(x=x)
            for name, got in fused(x=x).items():
                if target == "embedded":
                    np.testing.assert_array_equal(got, expected[name])
                np.testing.assert_allclose(got, expected[name], rtol=1e-5, atol=1e-6)
