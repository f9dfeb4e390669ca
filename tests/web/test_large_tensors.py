"""Inputs, results and intermediate results that are larger than a page's GPU binds at once: the same bits as on a
device that binds them whole."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deploykit
from bench.browser import find_chromium, in_chromium
from deploykit.compiler.variant import Variant
from deploykit.targets.webgpu import WebTarget
from deploykit.targets.webgpu.variants import SHADERS, WASM
from tests.seeded import seeded

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

LIMIT = 1 << 14
TEXT = """<ir_version: 9, opset_import: ["": 21]>
large (float[n, 130] x) => (float[n, 130] y, float[130, n] t, bool[n, 130] p, float[m, 40] z, float[n, 130] s) {
    y = Softmax<axis = 1>(x)
    t = Transpose<perm = [1, 0]>(x)
    p = Greater(x, y)
    a = MatMul(y, w)
    z = Concat<axis = 0>(a, a)
    s = Identity(x)
}"""


class Small(WebTarget):
    """A target whose shaders have several bindings for tensors of more than `LIMIT` bytes."""

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:  # noqa: ARG002 - as for its base
        assert SHADERS.gpu is not None
        return [WASM, replace(SHADERS, gpu=replace(SHADERS.gpu, binding_bytes=LIMIT))]


def test_the_same_bits_below_and_above_the_limit(tmp_path: Path) -> None:
    deploykit.build(seeded(TEXT, {"w": (130, 40)}), Small(), {"n": (1, 90)}, tmp_path / "dist")
    shutil.copyfile(Path(__file__).with_name("large.html"), tmp_path / "dist" / "large.html")
    found = in_chromium(tmp_path / "dist", f"large.html?bound={LIMIT}", gpu=True)
    assert "error" not in found, found["error"]
    assert found["equal"] == [True] * 4 * 5
    x = (np.sin(np.arange(130)) * 4).astype(np.float32)
    np.testing.assert_allclose(found["last"], np.exp(x) / np.exp(x).sum(), rtol=1e-4)
