"""Shaders in OpenCL C, run by the driver for OpenCL on what this machine has, such as PoCL, against NumPy and ONNX
Runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from bench.shader_math import FUNCTIONS, errors, model_of, operands
from tests.compiler.codegen.shaders.opencl import AVAILABLE, GUARD, OpenClShaders
from tests.compiler.codegen.shaders.test_float16 import CASES as HALVES
from tests.seeded import seeded

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="needs OpenCL, such as PoCL")

HEAD = '<ir_version: 9, opset_import: ["": 20]>\n'
KINDS = {"float": np.float32, "float16": np.float16, "int32": np.int32, "int64": np.int64, "int8": np.int8}
KINDS |= {"uint8": np.uint8, "bool": np.bool_}

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A model, the types of its inputs, their shapes in each run, and the shapes of its weights."""

    text: str
    runs: Sequence[Sequence[Shape]]
    kinds: Sequence[str] = ("float",)
    weights: Mapping[str, Shape] = field(default_factory=dict)


CASES = {
    "padding": Case(
        """g (float[b, 3, h, w] x) => (float[b, 8, oh, ow] z) {
            a = Conv<pads = [1, 1, 1, 1]>(x, w)
            z = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(a)
        }""",
        [[(1, 3, 1, 1)], [(2, 3, 5, 7)], [(1, 3, 33, 40)]],
        weights={"w": (8, 3, 3, 3)},
    ),
    "depthwise": Case(
        "g (float[b, 8, h, w] x) => (float[b, 8, oh, ow] z) { z = Conv<group = 8, pads = [2, 2, 2, 2]>(x, w) }",
        [[(1, 8, 1, 1)], [(2, 8, 5, 7)], [(1, 8, 40, 40)]],
        weights={"w": (8, 1, 5, 5)},
    ),
    "product": Case(
        "g (float[b, n, k] x, float[b, k, m] y) => (float[b, n, m] z) { z = MatMul(x, y) }",
        [[(1, 1, 1)] * 2, [(2, 3, 5), (2, 5, 7)], [(3, 33, 17), (3, 17, 40)]],
        ("float", "float"),
    ),
    "packed product": Case(
        "g (float[n, 40] x) => (float[n, 24] z) { a = MatMul(x, w) z = Relu(a) }",
        [[(1, 40)], [(3, 40)], [(131, 40)]],
        weights={"w": (40, 24)},
    ),
    "teams": Case(
        "g (float[n, k] x) => (float[n, k] z, float[n, 1] s) { z = Softmax(x) s = ReduceMax<keepdims = 1>(x, axis) }",
        [[(1, 1)], [(3, 7)], [(65, 129)], [(2, 5000)]],
        weights={},
    ),
    "normalisation": Case(
        "g (float[n, 32] x) => (float[n, 32] z) { z = LayerNormalization(x, w, v) }",
        [[(1, 32)], [(3, 32)], [(65, 32)]],
        weights={"w": (32,), "v": (32,)},
    ),
    "moved": Case(
        "g (float[a, b, c] x) => (float[c, a, b] z) { z = Transpose<perm = [2, 0, 1]>(x) }",
        [[(1, 1, 1)], [(2, 3, 5)], [(4, 32, 65)]],
    ),
    "integers of 64 bits": Case(
        """g (int64[n] x, int64[n] y) => (int64[n] a, int64[n] b, int64[n] c, bool[n] d, int64[n] e, int64[n] f) {
            a = Add(x, y) b = Mul(x, y) c = Sub(x, y) d = Less(x, y) e = Div(x, y) f = Mod(x, y)
        }""",
        [[(1,)] * 2, [(7,)] * 2, [(1000,)] * 2],
        ("int64", "int64"),
    ),
    "integers": Case(
        """g (int32[n] x, int32[n] y) => (int32[n] a, int32[n] b, int32[n] c, bool[n] d, float[n] e) {
            a = Div(x, y) b = Mod(x, y) s = Max(x, y) c = Where(d, s, x) d = Greater(x, y) e = Cast<to = 1>(x)
        }""",
        [[(1,)] * 2, [(7,)] * 2, [(1000,)] * 2],
        ("int32", "int32"),
    ),
    "integers that wrap around": Case(
        "g (int32[n] x, int32[n] y) => (int32[n] a, int32[n] b) { s = Mul(x, y) a = Add(s, x) b = Sub(s, y) }",
        [[(1,)] * 2, [(7,)] * 2, [(1000,)] * 2],
        ("int32", "int32"),
    ),
    "bytes": Case(
        """g (int8[n, m] x, uint8[n, m] y) => (int8[m, n] a, float[n, m] b, uint8[n, m] c) {
            a = Transpose(x) f = Cast<to = 1>(x) h = Cast<to = 1>(y) b = Add(f, h) c = BitwiseNot(y)
        }""",
        [[(1, 1)] * 2, [(3, 7)] * 2, [(65, 130)] * 2],
        ("int8", "uint8"),
    ),
    "truths": Case(
        """g (bool[n, m] x, bool[n, m] y) => (bool[n, m] a, bool[m, n] b, float[n, m] c, bool[n, m] d) {
            a = And(x, y) o = Xor(x, y) b = Transpose(o) c = Cast<to = 1>(a) d = Not(o)
        }""",
        [[(1, 1)] * 2, [(3, 7)] * 2, [(64, 132)] * 2],
        ("bool", "bool"),
    ),
    "comparisons": Case(
        """g (float[n, m] x, float[n, m] y) => (bool[n, m] a, float[n, m] b, float[n, m] c, float[n, m] d) {
            a = GreaterOrEqual(x, y) b = Where(a, x, y) c = Max(x, y) d = Clip(x, low, high)
        }""",
        [[(1, 1)] * 2, [(3, 7)] * 2, [(64, 132)] * 2],
        ("float", "float"),
    ),
    "slices": Case(
        """g (float[n, k] x) => (float[a, b] z, float[c, d] y) {
            z = Pad<mode = "constant">(x, pads) y = Concat<axis = 0>(x, x)
        }""",
        [[(1, 1)], [(3, 7)], [(33, 64)]],
    ),
    **{
        f"float16: {name}": Case(case.text, case.runs, ("float16",) * len(case.runs[0]), case.weights)
        for name, case in HALVES.items()
    },
}
NUMBERS = {
    "axis": np.array([1], np.int64),
    "pads": np.array([1, 2, 3, 0], np.int64),
    "low": np.float32(-0.5),
    "high": np.float32(0.5),
}


def _input(kind: str, shape: Shape, random: np.random.Generator) -> np.ndarray:
    dtype = KINDS[kind]
    if kind.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    if kind == "bool":
        return random.random(shape) < 0.5
    large = {"int64": 2**40, "int32": 2**20}.get(kind, 100)
    found = random.integers(0 if kind == "uint8" else -large, large, shape).astype(dtype)
    return np.where(found == 0, 1, found).astype(dtype)


def _model(case: Case) -> Any:
    import onnx

    halves = "float16" in case.kinds
    model = seeded(HEAD + case.text, case.weights, np.float16 if halves else np.float32)
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in NUMBERS.items() if name in used
    )
    return model


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("name", CASES)
def test_operators(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    case, random = CASES[name], np.random.default_rng(0)
    model = _model(case)
    shaders = OpenClShaders(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ports = [port.name for port in session.get_inputs()]
    near = 2e-3 if "float16" in case.kinds else 2e-5
    for shapes in case.runs:
        inputs = [_input(kind, shape, random) for kind, shape in zip(case.kinds, shapes, strict=True)]
        expected = session.run(None, dict(zip(ports, inputs, strict=True)))
        for found, wanted in zip(shaders(*inputs), expected, strict=True):
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted, rtol=near, atol=near)
            else:
                np.testing.assert_array_equal(found, wanted)


@pytest.fixture(scope="module")
def given() -> list[np.ndarray]:
    return operands()


@pytest.fixture(scope="module")
def functions(given: list[np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip(FUNCTIONS, OpenClShaders(model_of(list(FUNCTIONS)))(*given), strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, given: list[np.ndarray], functions: dict[str, np.ndarray]) -> None:
    wrong = errors(name, given, functions[name])
    worst = int(np.argmax(wrong))
    place = [float(x[worst]) for x in given]
    assert wrong[worst] <= FUNCTIONS[name].ulp, f"{wrong[worst]:.2f} units at {place}: {functions[name][worst]}"


@pytest.mark.slow
@pytest.mark.parametrize("side", ["1", "2"])
def test_kernels_stay_in_their_buffers(side: str) -> None:
    """A kernel that touches memory beside a buffer ends the process."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__, "-k", "operators"]
    done = subprocess.run(command, env=os.environ | {GUARD: side}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
