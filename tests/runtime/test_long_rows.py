"""Reductions of a whole tensor to one value on GPUs. Many invocations share them: llvmpipe ends the loops of one after
65,536 steps, and says nothing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deploykit.artifact.devices import CODE
from tests.runtimes import named

ROWS = 9001

MODELS = {
    "largest": "y = ReduceMax<keepdims = 1>(x)",
    "used by all": "l = ReduceMax<keepdims = 1>(x) y = Sub(x, l)",
    "not neighbours": "t = Transpose<perm = [1, 0]>(x) u = Mul(t, x2) y = ReduceSum<keepdims = 1>(u)",
}


@pytest.mark.slow
@pytest.mark.parametrize("device", CODE)
@pytest.mark.parametrize("name", MODELS)
def test_a_long_row_is_whole(name: str, device: str) -> None:
    runtime = named(device)
    if runtime.missing:
        pytest.skip(runtime.missing)
    text = f"g (float[n, 80] x, float[80, n] x2) => (float[a, b] y) {{ {MODELS[name]} }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}')
    x = np.ones((ROWS, 80), np.float32)
    x[-1, -1] = 3
    expected = {"largest": x.max(), "used by all": x - x.max(), "not neighbours": float((x * x).sum(dtype="float64"))}
    with runtime.session(model, dims={"n": (1, ROWS)}) as session:
        y = session.run({"x": x, "x2": np.ascontiguousarray(x.T)})["y"]
    np.testing.assert_allclose(y, np.broadcast_to(expected[name], y.shape), rtol=1e-5)
