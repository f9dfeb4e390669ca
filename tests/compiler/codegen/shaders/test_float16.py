"""float16 in shaders against ONNX Runtime, at sizes of 1, odd and larger sizes.

The adapter has the features `shader-f16` and `subgroups`; shaders for every combination of them run on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from deploykit.compiler.codegen.shaders.sections import F16, SUBGROUPS
from tests.compiler.codegen.shaders.harness import Shaders, find_device
from tests.seeded import seeded

pytestmark = pytest.mark.skipif(
    find_device() is None, reason="needs wgpu and an adapter with float16, such as lavapipe"
)

HEAD = '<ir_version: 9, opset_import: ["": 20]>\n'
VARIANTS = {"f16": [F16], "words": [], "both": [F16, SUBGROUPS], "subgroups": [SUBGROUPS]}

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A model, the shapes of its weights, and the shapes of its inputs in each run. `tiled`: no element is stored by
    atomic operations, even without `shader-f16`."""

    text: str
    runs: Sequence[Sequence[Shape]]
    weights: Mapping[str, Shape] = field(default_factory=dict)
    tiled: bool = False


CASES = {
    "elementwise": Case(
        "g (float16[n, k] x, float16[n, k] y) => (float16[n, k] z) { a = Mul(x, y) b = Add(a, x) z = Tanh(b) }",
        [[(1, 1)] * 2, [(3, 7)] * 2, [(65, 130)] * 2],
        tiled=True,
    ),
    "packed product": Case(
        "g (float16[n, 40] x) => (float16[n, 24] z) { a = MatMul(x, w) z = Relu(a) }",
        [[(1, 40)], [(3, 40)], [(131, 40)]],
        {"w": (40, 24)},
        tiled=True,
    ),
    "product": Case(
        "g (float16[b, n, k] x, float16[b, k, m] y) => (float16[b, n, m] z) { z = MatMul(x, y) }",
        [[(1, 1, 1)] * 2, [(2, 3, 5), (2, 5, 7)], [(3, 33, 17), (3, 17, 40)]],
    ),
    "convolution": Case(
        """g (float16[b, 3, h, w] x) => (float16[b, 8, oh, ow] z) {
            a = Conv<pads = [1, 1, 1, 1]>(x, w)
            z = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(a)
        }""",
        [[(1, 3, 1, 1)], [(2, 3, 5, 7)], [(1, 3, 33, 40)]],
        {"w": (8, 3, 3, 3)},
    ),
    "softmax": Case("g (float16[n, k] x) => (float16[n, k] z) { z = Softmax(x) }", [[(1, 1)], [(3, 7)], [(65, 129)]]),
    "normalisation": Case(
        "g (float16[n, 32] x) => (float16[n, 32] z) { z = LayerNormalization(x, w, v) }",
        [[(1, 32)], [(3, 32)], [(65, 32)]],
        {"w": (32,), "v": (32,)},
        tiled=True,
    ),
}


@pytest.mark.parametrize("features", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("name", CASES)
def test_operators(name: str, features: Sequence[str]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    case, random = CASES[name], np.random.default_rng(0)
    model = seeded(HEAD + case.text, case.weights, np.float16)
    shaders = Shaders(model, *features)
    f16 = F16 in features
    assert all(("array<f16>" in text or "array<vec4<f16>>" in text) == f16 for text in shaders.texts if "load_" in text)
    assert f16 or case.tiled == ("atomic" not in "".join(shaders.texts))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for shapes in case.runs:
        inputs = [random.standard_normal(shape).astype(np.float16) for shape in shapes]
        expected = session.run(None, {port.name: x for port, x in zip(session.get_inputs(), inputs, strict=True)})
        np.testing.assert_allclose(shaders(*inputs)[0], expected[0], rtol=2e-3, atol=2e-3)


HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FLOATS = HALVES.astype(np.float32)
with np.errstate(invalid="ignore", over="ignore"):
    BETWEEN = FLOATS + (np.nextafter(HALVES, np.float16(np.inf)).astype(np.float32) - FLOATS) / 2
NEIGHBOURS = [np.nextafter(BETWEEN, np.float32(limit)) for limit in (-np.inf, np.inf)]
EXTREMES = np.array([65519.996, 65520, 3e38, -3e38, 1e-40, -0.0], np.float32)
REAL = np.concatenate([FLOATS, BETWEEN, *NEIGHBOURS, np.resize(EXTREMES, 1 << 16)])
"""float32 numbers: every half-precision number, the middle between each two neighbours, and the numbers next to it."""

CONVERSIONS = {
    "to float": ("g (float16[n, m] x) => (float[n, m] z) { z = Cast<to=1>(x) }", HALVES.reshape(256, 256)),
    "to half": ("g (float[n, m] x) => (float16[n, m] z) { z = Cast<to=10>(x) }", REAL.reshape(-1, 256)),
    "moved": ("g (float16[n, m] x) => (float16[m, n] z) { z = Transpose(x) }", HALVES.reshape(256, 256)),
    "to half, moved": (
        "g (float[n, m] x) => (float16[m, n] z) { y = Cast<to=10>(x) z = Transpose(y) }",
        REAL.reshape(-1, 256),
    ),
}


@pytest.mark.parametrize("features", [[F16], []], ids=["f16", "words"])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_are_exact(name: str, features: Sequence[str]) -> None:
    text, x = CONVERSIONS[name]
    (found,) = Shaders(seeded(HEAD + text, {}), *features)(x)
    with np.errstate(over="ignore"):
        expected = (x.T if "moved" in name else x).astype(found.dtype)
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])
