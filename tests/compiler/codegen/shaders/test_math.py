"""Functions in shaders against double precision, on two drivers: numbers of every magnitude, special numbers, and every
float16. The allowed errors are those in docs/performance.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deploykit
from bench.shader_math import FUNCTIONS, errors, model_of, operands
from deploykit.compiler.codegen.shaders.sections import F16
from deploykit.engines.web.chromium import find_chromium
from tests.compiler.codegen.shaders.harness import Shaders, find_device
from tests.seeded import seeded

NAMES = list(FUNCTIONS)
VECTORS = 40_000
"""Number of elements that are computed as vectors."""

Results = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def given() -> list[np.ndarray]:
    return operands()


@pytest.fixture(scope="module")
def with_wgpu(given: list[np.ndarray]) -> Results:
    if find_device() is None:
        pytest.skip("needs wgpu and an adapter")
    return dict(zip(NAMES, Shaders(model_of(NAMES))(*given), strict=True))


@pytest.fixture(scope="module")
def in_chromium(given: list[np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Results:
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    folder = tmp_path_factory.mktemp("math") / "functions"
    deploykit.build(model_of(NAMES), "webgpu", output=folder)
    with deploykit.open(folder, device="webgpu") as session:
        return dict(session.run(dict(zip(("x", "y"), given, strict=True))))


def check(name: str, given: list[np.ndarray], found: Results) -> None:
    wrong = errors(name, given, found[name])
    worst = int(np.argmax(wrong))
    place = [float(x[worst]) for x in given]
    assert wrong[worst] <= FUNCTIONS[name].ulp, f"{wrong[worst]:.2f} units at {place}: {found[name][worst]}"


@pytest.mark.parametrize("name", NAMES)
def test_errors_with_wgpu(name: str, given: list[np.ndarray], with_wgpu: Results) -> None:
    check(name, given, with_wgpu)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_errors_in_chromium(name: str, given: list[np.ndarray], in_chromium: Results) -> None:
    check(name, given, in_chromium)


def test_the_page_states_the_errors() -> None:
    page = (Path(__file__).parents[4] / "docs" / "performance.md").read_text()
    stated = {
        name: float(ulp)
        for names, ulp in re.findall(r"^\| (`[^|]*) \| ([\d.]+) \|$", page, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert stated == {name: function.ulp for name, function in FUNCTIONS.items()}


@pytest.mark.skipif(find_device() is None, reason="needs wgpu and an adapter")
@pytest.mark.parametrize("features", [[], [F16]])
def test_every_float16(features: list[str]) -> None:
    """Functions are computed in float32 and rounded once, so each result is a float16 next to the exact one."""
    names = [name for name, function in FUNCTIONS.items() if function.operands == 1]
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    found = Shaders(model_of(names, TensorProto.FLOAT16), *features)(x, x)
    for name, got in zip(names, found, strict=True):
        with np.errstate(all="ignore"):
            exact = FUNCTIONS[name].exact(x.astype("float64"))
            expected = exact.astype("float16")
            apart = np.abs(got.astype("float64") - exact)
            near = apart <= 0.51 * np.spacing(np.abs(expected)).astype("float64")
        normal = np.isfinite(expected) & np.isfinite(got)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        assert np.all(np.where(normal, near, same)), (name, x[~np.where(normal, near, same)][:5])


@pytest.mark.skipif(find_device() is None, reason="needs wgpu and an adapter")
def test_vectors_are_as_right_as_numbers() -> None:
    """In the tiles of a matrix product, functions are applied to vectors."""
    text = (
        '<ir_version: 9, opset_import: ["": 20]> g (float[n, 32] x) => (float[n, 32] s, float[n, 32] c, float[n, 32] e)'
    )
    model = seeded(f"{text} {{ y = MatMul(x, w) s = Sin(y) c = Cos(y) e = Exp(y) }}", {"w": (32, 32)})
    del model.graph.initializer[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(32, dtype=np.float32), "w"))
    x = np.random.default_rng(0).uniform(-80, 80, (VECTORS // 32, 32)).astype(np.float32)
    found = Shaders(model)(x)
    for name, got in zip(("Sin", "Cos", "Exp"), found, strict=True):
        assert errors(name, [x], got).max() <= FUNCTIONS[name].ulp


@pytest.mark.skipif(find_device() is None, reason="needs wgpu and an adapter")
@pytest.mark.parametrize("length", [1, 7, 64, 4099])
def test_rotary_positions(length: int) -> None:
    """Sines and cosines of positions times frequencies, as in decoders."""
    nodes = [
        helper.make_node("Mul", ["position", "frequency"], ["angle"]),
        helper.make_node("Cos", ["angle"], ["c"]),
        helper.make_node("Sin", ["angle"], ["s"]),
    ]
    frequency = (10_000.0 ** -(np.arange(32) / 32)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "rotary",
        [helper.make_tensor_value_info("position", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 32]) for name in "cs"],
        [onnx.numpy_helper.from_array(frequency, "frequency")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    position = (np.arange(length, dtype=np.float32) * 25)[:, None]
    angle = (position * frequency).astype("float64")
    c, s = Shaders(model)(position)
    np.testing.assert_allclose(c, np.cos(angle), rtol=0, atol=1.2e-7)
    np.testing.assert_allclose(s, np.sin(angle), rtol=0, atol=1.2e-7)
