"""ONNX Runtime, as what artifacts are compared with, adds products of bytes exactly on every CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from deploykit.checks import reference

SUMS = """<ir_version: 9, opset_import: ["": 17]>
sums (uint8[n, 64] x) => (uint8[n, 8] y) {
    a = DequantizeLinear(x, scale, zero)
    b = DequantizeLinear(weight, scale, zero_of_weight)
    c = MatMul(a, b)
    y = QuantizeLinear(c, wide, zero)
}"""


@pytest.mark.parametrize("readers", [1, 2])
def test_sums_do_not_saturate(readers: int, tmp_path: Path) -> None:
    """All products are 255 * 127: the sum of two is beyond 16 bits. `zero` may be read by two products."""
    model = parser.parse_model(SUMS)
    if readers == 2:
        again = parser.parse_model(SUMS.replace("y = Quant", "z = Quant")).graph.node
        renamed = {"a": "d", "b": "e", "c": "f"}
        for node in again:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
        model.graph.node.extend(again)
        model.graph.output.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.UINT8, ["n", 8]))
    constants = {
        "scale": np.float32(1),
        "zero": np.uint8(0),
        "zero_of_weight": np.int8(0),
        "weight": np.full((64, 8), 127, np.int8),
        "wide": np.float32(255 * 127 * 64 / 200),
    }
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    onnx.save(model, tmp_path / "sums.onnx")
    found = reference.load(tmp_path / "sums.onnx")({"x": np.full((3, 64), 255, np.uint8)})
    for array in found.values():
        np.testing.assert_array_equal(array, np.full((3, 8), 200))
