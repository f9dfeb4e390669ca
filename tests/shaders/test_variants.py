"""The variants of shaders with float16 tensors: how they are packaged and chosen, and that a page computes with one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit import runtime
from deploykit.engines.chromium import find_chromium
from deploykit.engines.node import find_node
from tests.seeded import seeded
from tests.shaders.harness import program_of

MODEL = """<ir_version: 9, opset_import: ["": 20]>
g (float16[n, 40] x) => (float[n, 24] z, float16[24, n] t) {
    y = MatMul(x, w)
    s = Softmax(y)
    t = Transpose(s)
    z = Cast<to = 1>(y)
}"""

WEIGHTS = {"w": (40, 24)}

CHOOSE = """const [module, path] = process.argv.slice(1);
const text = require('fs').readFileSync(path, 'utf8');
import(module).then(({ shadersOf }) => {
  console.log(JSON.stringify([true, false].map((f16) => shadersOf(text, f16))));
});"""


def test_the_variant_of_a_device_is_chosen(tmp_path: Path) -> None:
    model = seeded(MODEL, WEIGHTS, np.float16)
    _, shaders = program_of(model)
    assert len(shaders) == len({shader.common for shader in shaders}) > 2
    assert {"enable f16;" in shader.f16 for shader in shaders} == {True, False}
    deploykit.build(model, "webgpu", output=tmp_path / "dist")
    module = next(path for path in runtime.JS_MODULES if path.name == "gpu-module.mjs").as_uri()
    call = [find_node(), "-e", CHOOSE, module, str(tmp_path / "dist" / "shaders.wgsl")]
    found = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    assert found == [[shader.text(f16=f16) for shader in shaders] for f16 in (True, False)]


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_page_computes_with_what_its_adapter_has(tmp_path: Path) -> None:
    model = seeded(MODEL, WEIGHTS, np.float16)
    weight = np.frombuffer(model.graph.initializer[0].raw_data, np.float16).reshape(40, 24).astype(np.float32)
    deploykit.build(model, "webgpu", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist", device="webgpu") as session:
        for rows in (1, 3, 130):
            x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float16)
            found = session(x=x)
            product = (x.astype(np.float32) @ weight).astype(np.float16).astype(np.float32)
            powers = np.exp(product - product.max(axis=1, keepdims=True))
            np.testing.assert_allclose(found["z"], product, rtol=2e-3, atol=2e-3)
            np.testing.assert_allclose(found["t"].T, powers / powers.sum(axis=1, keepdims=True), rtol=2e-3, atol=2e-3)
