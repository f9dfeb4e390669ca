"""Kernels with more numbers than a shader has bindings: the numbers are elements of one tensor per dtype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.compiler.decisions import Decision
from deploykit.compiler.devices.gpu import NATIVE_GPU
from deploykit.compiler.graph.join_scalars import join_scalars
from deploykit.compiler.schedules import DEVICES
from deploykit.engines.native.adapters import adapters
from deploykit.pipeline import KernelModule, graph, kernels
from tests.frontends.onnx.harness import numbers, parse

SCALES = ["a", "b", "c", "d", "e", "f", "g", "h"]


def chain(name: str, start: str, first: float) -> str:
    """A sum and a product with a number each, in turns; the numbers have one axis, as Paddle exports them."""
    text, value = "", start
    for index, scale in enumerate(SCALES):
        number, result = f"{name}_{scale}_number", f"{name}_{scale}"
        text += f"{number} = Constant<value_floats = [{first + index / 4}]>() "
        text += f"{result} = {'Add' if index % 2 else 'Mul'}({value}, {number}) "
        value = result
    return text


ONE = f"(float[n, m] x) => (float[n, m] y) {{ {chain('one', 'x', 0.5)} y = Tanh(one_h) }}"
TWO = f"""(float[n, m] x) => (float[n, m] y, float[n, m] z) {{
    {chain("one", "x", 0.5)} y = Tanh(one_h) {chain("two", "y", 1.0)} z = Tanh(two_h) }}"""
INTEGERS = """(float[n, m] x, float[m] w, float[m] v) => (float[n, m] y) {
    a = Constant<value_floats = [1.5]>() b = Constant<value_floats = [0.25]>() c = Constant<value_floats = [3.0]>()
    i = Constant<value_ints = [3]>() j = Constant<value_ints = [-2]>() k = Constant<value_ints = [7]>()
    s = Mul(x, a) t = Add(s, b) u = Cast<to = 7>(t) p = Mul(u, i) q = Add(p, j) r = Mod(q, k)
    f = Cast<to = 1>(r) g = Mul(f, w) h = Add(g, v) y = Add(h, c) }"""
PRODUCT = f"""(float[n, 24] x, float[24, 12] w, float[12] bias) => (float[n, 12] y) {{
    p = MatMul(x, w) q = Add(p, bias) {chain("one", "q", 0.75)} y = Relu(one_h) }}"""
MODELS = {"one": ONE, "two": TWO, "integers": INTEGERS, "product": PRODUCT}


def fused(text: str, notes: list[Decision] | None = None) -> KernelModule:
    device = DEVICES["x86-64-v3"]
    said = [] if notes is None else notes
    return kernels(graph(deploykit.load(parse(text, 17)), device), device, NATIVE_GPU, note=said.append)


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_every_kernel_is_a_shader(text: str) -> None:
    notes: list[Decision] = []
    found = fused(text, notes)
    assert not [decision.kept for decision in found.decisions.values() if decision.kept is not None]
    assert [note for note in notes if note.by == "join_scalars"]


def test_calls_with_other_numbers_share_a_kernel() -> None:
    functions = fused(TWO).module.functions
    assert sum(isinstance(func, tirx.PrimFunc) for func in functions.values()) == 1


def test_kernels_that_fit_stay_as_they_are() -> None:
    module = graph(deploykit.load(parse(ONE, 17)), DEVICES["x86-64-v3"])
    assert join_scalars(module, bindings=3).same_as(module)


@pytest.mark.slow
@pytest.mark.parametrize("device", CODE)
@pytest.mark.parametrize("name", MODELS)
def test_values(tmp_path: Path, name: str, device: str) -> None:
    if not adapters(device):
        pytest.skip(f"needs a device with {device}")
    model = parse(MODELS[name], 17)
    deploykit.build(model, output=tmp_path / "d", devices=[device])
    with deploykit.open(tmp_path / "d") as on_cpu, deploykit.open(tmp_path / "d", device=device) as on_gpu:
        for rows, width in [(1, 1), (3, 7), (65, 24), (2, 129)]:
            sizes = {"n": rows, "m": width}
            dims = {each.name: each.type.tensor_type.shape.dim for each in model.graph.input}
            feeds = {
                each: numbers(*(sizes.get(d.dim_param, d.dim_value) for d in shape)) for each, shape in dims.items()
            }
            expected, found = on_cpu(**feeds), on_gpu(**feeds)
            for output, value in expected.items():
                np.testing.assert_allclose(found[output], value, rtol=1e-5, atol=1e-5)
