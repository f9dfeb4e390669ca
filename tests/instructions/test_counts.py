"""How many instructions kernels take: a slowdown shows without a clock.

Each model is built for x86-64-v3, as valgrind knows no AVX-512, and runs once under callgrind, which counts what
`<model>_run` executes. `counts.json` holds what is expected. More than `TOLERANCE` above fails; fewer are a warning:
`pytest --update-golden` takes over the new counts.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.engines.process import Build, Process
from deploykit.manifest import read_manifest
from deploykit.targets.base import find_target
from deploykit.toolchain import find_c_compiler

COUNTS = Path(__file__).with_name("counts.json")
TOLERANCE = 0.03

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="counts are those of x86-64"),
    pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind"),
]


@dataclass(frozen=True)
class Case:
    """A model as `(inputs) => (outputs) { nodes }`, the shapes of its weights, and those of the inputs to run with."""

    text: str
    inputs: dict[str, tuple[int, ...]]
    weights: dict[str, tuple[int, ...]]


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


def model_of(name: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {name} {CASES[name].text}')
    random = np.random.default_rng(0)
    for weight, shape in CASES[name].weights.items():
        array = (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, weight))
    return model


def arrays_of(name: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shapes = CASES[name].inputs
    if "i" in shapes:
        return {"i": random.integers(0, 500, shapes["i"])}
    return {key: random.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}


def count(name: str, folder: Path) -> int:
    """Instructions of one run, whose results are checked."""
    model, arrays = model_of(name), arrays_of(name)
    deploykit.build(model, cpu="x86-64-v3", output=folder / "dist")
    counts = folder / "counts.txt"
    settings = (f"--toggle-collect={name}_run", f"--callgrind-out-file={counts}", "--log-file=/dev/null")
    build = Build(find_c_compiler(), (), launcher=("valgrind", "--tool=callgrind", *settings))
    scratch = folder / "scratch"
    scratch.mkdir()
    manifest = read_manifest(folder / "dist")
    engine = Process(find_target("host").sources(folder / "dist"), folder / "dist", manifest, scratch, build)
    (result,) = engine.run([arrays[port.name] for port in manifest.inputs])
    np.testing.assert_allclose(result, ReferenceEvaluator(model).run(None, arrays)[0], rtol=1e-3, atol=1e-4)
    (total,) = re.findall(r"^totals: (\d+)$", counts.read_text(), re.MULTILINE)
    return int(total)


@pytest.mark.parametrize("name", CASES)
def test_count(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = count(name, tmp_path)
    known = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    if request.config.getoption("--update-golden"):
        known = {case: known.get(case) for case in CASES if case in known or case == name} | {name: found}
        COUNTS.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n")
        return
    ratio = found / known[name]
    assert ratio <= 1 + TOLERANCE, f"{name}: {found} instructions, {known[name]} expected; see pytest --update-golden"
    if ratio < 1 - TOLERANCE:
        warnings.warn(f"{name} takes {found} instructions, fewer than {known[name]}: --update-golden", stacklevel=1)


def test_every_count_has_a_case() -> None:
    assert set(json.loads(COUNTS.read_text())) == set(CASES)
