"""Variants of shaders: how they are packaged and chosen, and that a page computes right results with one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.compiler.codegen.shaders.sections import shortened
from deploykit.engines.web.chromium import find_chromium
from deploykit.engines.web.node import find_node
from tests.compiler.codegen.shaders.harness import program_of
from tests.seeded import seeded

MODEL = """<ir_version: 9, opset_import: ["": 20]>
g (float16[n, 40] x) => (float[n, 48] z, float16[48, n] t) {
    y = MatMul(x, w)
    s = Softmax(y)
    t = Transpose(s)
    z = Cast<to = 1>(y)
}"""

WEIGHTS = {"w": (40, 48)}

FEATURES = [["shader-f16", "subgroups"], ["shader-f16"], ["subgroups"], []]

CHOOSE = """const [module, path] = process.argv.slice(1);
const text = require('fs').readFileSync(path, 'utf8');
import(module).then(({ shadersOf }) => {
  const texts = JSON.parse(process.argv[3]).map((features) => shadersOf(text, new Set(features)));
  console.log(JSON.stringify(texts));
});"""


def test_the_variant_of_a_device_is_chosen(tmp_path: Path) -> None:
    model = seeded(MODEL, WEIGHTS, np.float16)
    _, shaders = program_of(model)
    assert len(shaders) == len({shader.packaged() for shader in shaders}) > 2
    assert all("enable f16;" in shader.packaged() for shader in shaders)
    assert {"enable subgroups;" in shader.packaged() for shader in shaders} == {True, False}
    deploykit.build(model, "webgpu", output=tmp_path / "dist")
    module = (tmp_path / "dist" / "runtime" / "gpu.mjs").as_uri()
    call = [find_node(), "-e", CHOOSE, module, str(tmp_path / "dist" / "shaders.wgsl"), json.dumps(FEATURES)]
    found = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    assert found == [[shortened(shader.text(features)) for shader in shaders] for features in FEATURES]
    assert [text.startswith("enable") for text in found[0]] == [a != b for a, b in zip(found[0], found[3], strict=True)]


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_page_computes_with_what_its_adapter_has(tmp_path: Path) -> None:
    model = seeded(MODEL, WEIGHTS, np.float16)
    weight = np.frombuffer(model.graph.initializer[0].raw_data, np.float16).reshape(40, 48).astype(np.float32)
    deploykit.build(model, "webgpu", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist", device="webgpu") as session:
        for rows in (1, 3, 130):
            x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float16)
            found = session(x=x)
            product = (x.astype(np.float32) @ weight).astype(np.float16).astype(np.float32)
            powers = np.exp(product - product.max(axis=1, keepdims=True))
            np.testing.assert_allclose(found["z"], product, rtol=2e-3, atol=2e-3)
            np.testing.assert_allclose(found["t"].T, powers / powers.sum(axis=1, keepdims=True), rtol=2e-3, atol=2e-3)
