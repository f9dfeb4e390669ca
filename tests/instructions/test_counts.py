"""The number of instructions that kernels execute, which detects a slowdown without a clock.

Each model is built for the CPU of each counter (`bench.instructions`) and runs once; the instructions of `<model>_run`
are
counted. `counts.json` has the expected counts by CPU. A count that is higher by more than `TOLERANCE` fails. One that
is lower by more gives a warning. `pytest --update-golden` stores the new counts.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import DTypeLike
from onnx.reference import ReferenceEvaluator

import deploykit
from bench.instructions.counters import COUNTERS, Tool
from deploykit.artifact.manifest import read_manifest
from deploykit.engines.native.process import Process
from deploykit.targets.base import find_target
from tests.seeded import seeded

COUNTS = Path(__file__).with_name("counts.json")
TOLERANCE = 0.03
FAST_MATH = 0.75
"""The largest number of instructions of the shorter forms of functions, relative to the precise ones."""


@dataclass(frozen=True)
class Case:
    """A model as `(inputs) => (outputs) { nodes }`, and the shapes of its inputs in the run and of its weights."""

    text: str
    inputs: dict[str, tuple[int, ...]]
    weights: dict[str, tuple[int, ...]]
    dtype: DTypeLike = np.float32


FUNCTIONS = Case(
    """(float[n, 64] x) => (float[n, 64] y) {
        a = Exp(x)  b = Tanh(x)  c = Sigmoid(x)  d = Erf(x)  e = Log(a)  f = Sin(x)  g = Cos(x)
        y = Sum(a, b, c, d, e, f, g)
    }""",
    {"x": (20, 64)},
    {},
)
CASES = {
    "matmul": Case(
        "(float[n, 256] x) => (float[n, 192] y) { a = MatMul(x, w)  b = Add(a, c)  y = Relu(b) }",
        {"x": (60, 256)},
        {"w": (256, 192), "c": (192,)},
    ),
    "matvec": Case("(float[n, 512] x) => (float[n, 512] y) { y = MatMul(x, w) }", {"x": (1, 512)}, {"w": (512, 512)}),
    "products": Case(
        "(float[n, s, 64] x, float[n, 64, s] z) => (float[n, s, s] y) { y = MatMul(x, z) }",
        {"x": (2, 75, 64), "z": (2, 64, 75)},
        {},
    ),
    "conv": Case(
        "(float[n, 32, h, h] x) => (float[n, 64, p, p] y) { a = Conv<pads=[1, 1, 1, 1]>(x, w)  y = Relu(a) }",
        {"x": (1, 32, 28, 28)},
        {"w": (64, 32, 3, 3)},
    ),
    "pointwise_conv": Case(
        "(float[n, 96, h, h] x) => (float[n, 64, p, p] y) { y = Conv(x, w) }",
        {"x": (1, 96, 28, 28)},
        {"w": (64, 96, 1, 1)},
    ),
    "depthwise_conv": Case(
        "(float[n, 64, h, h] x) => (float[n, 64, p, p] y) { y = Conv<group=64, pads=[1, 1, 1, 1]>(x, w) }",
        {"x": (1, 64, 28, 28)},
        {"w": (64, 1, 3, 3)},
    ),
    "integer_matmul": Case(
        "(int8[n, 256] x) => (int32[n, 192] y) { y = MatMulInteger(x, w) }",
        {"x": (60, 256)},
        {"w": (256, 192)},
        np.int8,
    ),
    "lstm": Case(
        "(float[s, n, 24] x) => (float[s, d, n, 40] y) { y = LSTM<hidden_size=40>(x, w, r) }",
        {"x": (6, 5, 24)},
        {"w": (1, 160, 24), "r": (1, 160, 40)},
    ),
    "gru": Case(
        "(float[s, n, 24] x) => (float[s, d, n, 40] y) { y = GRU<hidden_size=40>(x, w, r) }",
        {"x": (6, 5, 24)},
        {"w": (1, 120, 24), "r": (1, 120, 40)},
    ),
    "softmax": Case("(float[n, s] x) => (float[n, s] y) { y = Softmax<axis=-1>(x) }", {"x": (60, 333)}, {}),
    "layernorm": Case(
        "(float[n, 384] x) => (float[n, 384] y) { y = LayerNormalization<axis=-1>(x, g, b) }",
        {"x": (77, 384)},
        {"g": (384,), "b": (384,)},
    ),
    "gather": Case("(int64[n] i) => (float[n, 96] y) { y = Gather<axis=0>(w, i) }", {"i": (200,)}, {"w": (500, 96)}),
    "transpose": Case(
        "(float[n, 12, s, 32] x) => (float[n, s, 12, 32] y) { y = Transpose<perm=[0, 2, 1, 3]>(x) }",
        {"x": (1, 12, 77, 32)},
        {},
    ),
    "turned": Case("(float[n, s] x) => (float[s, n] y) { y = Transpose<perm=[1, 0]>(x) }", {"x": (150, 130)}, {}),
    "gelu": Case("(float[n, 64] x) => (float[n, 64] y) { y = Gelu(x) }", {"x": (100, 64)}, {}),
}


def model_of(name: str, case: Case) -> onnx.ModelProto:
    return seeded(f'<ir_version: 9, opset_import: ["": 20]> {name} {case.text}', case.weights, case.dtype)


def arrays_of(case: Case) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    if "i" in case.inputs:
        return {"i": random.integers(0, 500, case.inputs["i"])}
    if np.issubdtype(case.dtype, np.integer):
        return {key: random.integers(-99, 99, shape, case.dtype) for key, shape in case.inputs.items()}
    return {key: random.standard_normal(shape).astype(np.float32) for key, shape in case.inputs.items()}


def count(name: str, case: Case, counter: Tool, folder: Path, *, fast_math: bool = False) -> int:
    """The number of instructions of one run. Its results are checked."""
    model, arrays = model_of(name, case), arrays_of(case)
    deploykit.build(model, cpu=counter.cpu, fast_math=fast_math, output=folder / "dist")
    scratch = folder / "scratch"
    scratch.mkdir()
    manifest = read_manifest(folder / "dist")
    sources = find_target("host").sources(folder / "dist")
    engine = Process(sources, folder / "dist", manifest, scratch, counter.build(f"{name}_run", folder))
    (result,) = engine.run([arrays[port.name] for port in manifest.inputs])
    np.testing.assert_allclose(result, ReferenceEvaluator(model).run(None, arrays)[0], rtol=1e-3, atol=1e-4)
    return counter.read(folder)


@pytest.fixture(params=COUNTERS, ids=lambda counter: counter.cpu)
def counter(request: pytest.FixtureRequest) -> Tool:
    chosen: Tool = request.param
    missing = chosen.missing()
    if missing is not None:
        pytest.skip(missing)
    return chosen


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("name", CASES)
def test_count(name: str, counter: Tool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = count(name, CASES[name], counter, tmp_path)
    known = json.loads(COUNTS.read_text())
    if request.config.getoption("--update-golden"):
        own = known.get(counter.cpu, {}) | {name: found}
        known[counter.cpu] = {case: own[case] for case in sorted(own) if case in CASES}
        COUNTS.write_text(json.dumps(known, indent=2) + "\n")
        return
    expected = known[counter.cpu][name]
    ratio = found / expected
    assert ratio <= 1 + TOLERANCE, f"{name}: {found} instructions, {expected} expected; see pytest --update-golden"
    if ratio < 1 - TOLERANCE:
        warnings.warn(f"{name} takes {found} instructions, fewer than {expected}: --update-golden", stacklevel=1)


def test_every_count_has_a_case() -> None:
    counts = json.loads(COUNTS.read_text())
    assert set(counts) == {counter.cpu for counter in COUNTERS}
    assert all(set(own) == set(CASES) for own in counts.values())


def test_fast_math_takes_fewer_instructions(counter: Tool, tmp_path: Path) -> None:
    counts = []
    for fast_math in (False, True):
        folder = tmp_path / str(fast_math)
        folder.mkdir()
        counts.append(count("functions", FUNCTIONS, counter, folder, fast_math=fast_math))
    assert counts[1] < FAST_MATH * counts[0]
