"""Divisions in shaders round as they should, whatever the signs of their operands."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from onnxruntime import InferenceSession

from tests.compiler.codegen.shaders.harness import Shaders, find_device

TEXT = """<ir_version: 9, opset_import: ["": 21]>
pool (float[1, 1, h, w] x) => (float[1, 1, p, q] y) {{
    y = AveragePool<kernel_shape = [3, 3], strides = [{stride}, {stride}], auto_pad = "{pad}">(x)
}}"""


@pytest.mark.skipif(find_device() is None, reason="no adapter for wgpu")
@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_padding_that_depends_on_dims(pad: str, stride: int) -> None:
    """Half of the padding, rounded down, becomes a quotient by -2 when it is simplified."""
    model = parser.parse_model(TEXT.format(pad=pad, stride=stride))
    reference = InferenceSession(model.SerializeToString())
    shaders = Shaders(model)
    random = np.random.default_rng(0)
    for h in range(1, 9):
        for w in (1, 2, 5, 8):
            x = random.standard_normal((1, 1, h, w), dtype=np.float32)
            (y,) = shaders(x)
            np.testing.assert_allclose(y, reference.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6, err_msg=f"{h}, {w}")
