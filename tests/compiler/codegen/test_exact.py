"""With `exact`, a row has the same bits however many rows there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from tests.frontends.onnx.harness import parse

ROWS = {
    "softmax and a difference": "y = Softmax<axis = -1>(x)\n z = Sub(y, b)",
    "softmax and a sum of products": "y = Softmax<axis = -1>(x)\n s = Mul(y, b)\n z = Add(s, x)",
    "normalization": "z = LayerNormalization<axis = -1>(x, b, c)",
    "sigmoid and a difference": "y = Sigmoid(x)\n s = Mul(y, c)\n z = Sub(b, s)",
    "a product": "y = MatMul(x, w)\n s = Mul(y, c)\n z = Add(s, x)",
    "a product and softmax": "y = MatMul(x, w)\n s = Softmax<axis = -1>(y)\n t = Mul(s, x)\n z = Sub(t, b)",
}


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("width", [4, 7])
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, width: int, cpu: str, tmp_path: Path) -> None:
    inputs = f"float[n,{width}] x, float[{width}] b, float[{width}] c, float[{width},{width}] w"
    deploykit.build(
        parse(f"({inputs}) => (float[n,{width}] z) {{ {ROWS[name]} }}"), output=tmp_path / "d", exact=True, cpu=cpu
    )
    random = np.random.default_rng(0)
    b, c = random.standard_normal((2, width), dtype=np.float32)
    shared = {"b": b, "c": c, "w": random.standard_normal((width, width), dtype=np.float32)}
    with deploykit.open(tmp_path / "d") as session:
        for rows in (2, 7, 16, 20, 31, 40):
            x = random.standard_normal((rows, width), dtype=np.float32)
            together = session.run({"x": x, **shared})["z"]
            alone = np.concatenate([session.run({"x": row[None], **shared})["z"] for row in x])
            np.testing.assert_array_equal(together, alone, err_msg=f"{rows} rows")
