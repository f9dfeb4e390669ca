"""Products that share an operand become one product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.compiler.graph.fold_reshapes import operator_of
from deploykit.compiler.schedules import DEVICES, Device
from deploykit.pipeline import graph
from tests.frontends.onnx.harness import by_onnxruntime, numbers, parse

HEADS, HEAD = 3, 8
WIDTH = HEADS * HEAD


def vector(name: str, *shape: int) -> str:
    values = ", ".join(str(value) for value in numbers(*shape, seed=len(name) + shape[0] + ord(name[-1])).ravel() / 8)
    return f"float[{', '.join(map(str, shape))}] {name} = {{{values}}}"


def projections(addends: str) -> str:
    """Attention over projections of one tensor. The projections named in `addends` have an addend."""
    weights = [vector(f"w{p}", 20, WIDTH) for p in "qkv"] + [vector(f"a{p}", WIDTH) for p in addends]
    text = f"parts = Constant<value_ints = [0, 0, {HEADS}, {HEAD}]>()  whole = Constant<value_ints = [0, 0, -1]>() "
    for part, order in zip("qkv", ("0, 2, 1, 3", "0, 2, 3, 1", "0, 2, 1, 3"), strict=True):
        text += f"m{part} = MatMul(x, w{part}) "
        text += f"s{part} = Add(a{part}, m{part}) " if part in addends else f"s{part} = Identity(m{part}) "
        text += f"r{part} = Reshape(s{part}, parts)  {part} = Transpose<perm = [{order}]>(r{part}) "
    text += """p = MatMul(q, k)  w = Softmax<axis = -1>(p)  o = MatMul(w, v)
        t = Transpose<perm = [0, 2, 1, 3]>(o)  y = Reshape(t, whole)"""
    return f"(float[b, s, 20] x) => (float[b, s, {WIDTH}] y) <{', '.join(weights)}> {{ {text} }}"


def kernels_called(model: onnx.ModelProto, device: Device) -> list[str]:
    """The kernels that a model calls, by name, one for each call."""
    main = graph(deploykit.load(model), device)["main"]
    values = [binding.value for block in main.body.blocks for binding in block.bindings]
    return [value.args[0].name_hint for value in values if operator_of(value) == "relax.call_tir"]


@pytest.mark.parametrize("addends", ["", "qkv", "qv"])
def test_projections_are_one_product(addends: str, tmp_path: Path) -> None:
    model = parse(projections(addends))
    for device in (DEVICES["x86-64-v3"], DEVICES["scalar-c"]):
        called = kernels_called(model, device)
        assert sum("matmul" in name for name in called) == 1
        assert not any("moved" in name for name in called)
    runs = [{"x": numbers(*shape, 20) / 16} for shape in ((1, 1), (2, 5), (3, 40))]
    expected = by_onnxruntime(model, *runs)
    for target, bounds in (("host", {}), ("embedded", {"b": (1, 4), "s": (1, 64)})):
        deploykit.build(model, target=target, dims=bounds, output=tmp_path / target)
        with deploykit.open(tmp_path / target) as session:
            for feeds, (wanted,) in zip(runs, expected, strict=True):
                np.testing.assert_allclose(session.run(feeds)["y"], wanted, rtol=2e-5, atol=1e-5)


def test_products_with_epilogues_stay_alone() -> None:
    weights = f"{vector('wa', 20, 24)}, {vector('wb', 20, 24)}"
    text = f"""(float[b, 20] x) => (float[b, 24] y) <{weights}> {{
        g = MatMul(x, wa)  u = MatMul(x, wb)  s = Sigmoid(g)  h = Mul(g, s)  y = Mul(h, u) }}"""
    called = kernels_called(parse(text), DEVICES["x86-64-v3"])
    assert sum("matmul" in name for name in called) == 2
