"""Artifacts for each class of GPUs compute what the CPU computes, at sizes around those of tiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.compiler.devices.gpu import CLASSES
from deploykit.engines.native.adapters import adapters
from tests.seeded import seeded

PRODUCTS = """<ir_version: 9, opset_import: ["": 20]>
products (float[n, 48] x) => (float[n, 40] y) { h = MatMul(x, w) r = Relu(h) t = MatMul(r, v) y = Add(t, b) }"""
IMAGES = """<ir_version: 9, opset_import: ["": 20]>
images (float[n, 3, 13, m] x) => (float[n, 24, 13, m] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, first) b = Relu(a)
    c = Conv <pads = [1, 1, 1, 1], group = 16> (b, single) d = Conv (c, last) e = Conv <group = 2> (d, grouped)
    y = Relu(e)
}"""
MODELS = {
    "products": (PRODUCTS, {"w": (48, 320), "v": (320, 40), "b": (40,)}),
    "images": (
        IMAGES,
        {"first": (16, 3, 3, 3), "single": (16, 1, 3, 3), "last": (48, 16, 1, 1), "grouped": (24, 24, 1, 1)},
    ),
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("device", CODE)
def test_every_class_computes_what_the_cpu_computes(tmp_path: Path, device: str, kind: str, model: str) -> None:
    if not adapters(device):
        pytest.skip(f"needs a device with {device}")
    text, weights = MODELS[model]
    deploykit.build(seeded(text, weights), output=tmp_path / "d", devices=[f"{device}:{kind}"])
    sizes = [(1, 48), (7, 48), (64, 48), (601, 48)] if model == "products" else [(1, 3, 13, 1), (1, 3, 13, 17)]
    with deploykit.open(tmp_path / "d") as on_cpu, deploykit.open(tmp_path / "d", device=device) as on_gpu:
        for shape in sizes:
            x = np.random.default_rng(shape[-1]).standard_normal(shape).astype(np.float32)
            np.testing.assert_allclose(on_gpu(x=x)["y"], on_cpu(x=x)["y"], rtol=1e-4, atol=1e-4)
