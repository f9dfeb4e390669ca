"""Moves of elements: reshapes and slices that become part of the kernels that read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

import deploykit
from deploykit.compiler.schedules import DEVICES
from deploykit.pipeline import graph, kernels
from tests.frontends.onnx.harness import Check, Feeds, by_onnxruntime, numbers, parse

JOINT = """(float[b, s, 72] x) => (float[b, s, 24] y) {
    five = Constant<value_ints = [0, 0, 3, 3, 8]>()  whole = Constant<value_ints = [0, 0, -1]>()
    zero = Constant<value_ints = [0]>()  one = Constant<value_ints = [1]>()  two = Constant<value_ints = [2]>()
    r = Reshape(x, five)  parts = Transpose<perm = [2, 0, 3, 1, 4]>(r)
    q1 = Gather<axis = 0>(parts, zero)  k1 = Gather<axis = 0>(parts, one)  v1 = Gather<axis = 0>(parts, two)
    q = Squeeze(q1, zero)  k2 = Squeeze(k1, zero)  v = Squeeze(v1, zero)
    k = Transpose<perm = [0, 1, 3, 2]>(k2)
    p = MatMul(q, k)  w = Softmax<axis = -1>(p)  o = MatMul(w, v)
    t = Transpose<perm = [0, 2, 1, 3]>(o)  y = Reshape(t, whole)
}"""
"""Queries, keys and values from one tensor, as in vision transformers."""

PAST = """(float[b, s, 72] x, float[b, 3, past, 8] old) => (float[b, 3, total, 8] y) {
    sizes = Constant<value_ints = [24, 24, 24]>()  split = Constant<value_ints = [0, 0, 3, 8]>()
    a, m, c = Split<axis = 2>(x, sizes)  r = Reshape(m, split)
    t = Transpose<perm = [0, 2, 1, 3]>(r)  y = Concat<axis = 2>(old, t)
}"""
"""New keys, appended to those of earlier positions."""

GROUPED = """(float[b, 6, s, 8] q, float[b, 2, t, 8] k0, float[b, 2, t, 8] v0) => (float[b, 6, s, 8] y) {
    two = Constant<value_ints = [2]>()  three = Constant<value_ints = [1, 1, 3, 1, 1]>()
    joint = Constant<value_ints = [0, 6, -1, 8]>()
    k1 = Unsqueeze(k0, two)  k2 = Expand(k1, three)  k3 = Reshape(k2, joint)  k = Transpose<perm = [0, 1, 3, 2]>(k3)
    v1 = Unsqueeze(v0, two)  v2 = Expand(v1, three)  v = Reshape(v2, joint)
    p = MatMul(q, k)  w = Softmax<axis = -1>(p)  y = MatMul(w, v)
}"""
"""Each key head is repeated for three query heads."""

FORMS = {"joint": JOINT, "past": PAST, "grouped": GROUPED}
EXPECTED = {"joint": ["attention"], "past": ["concat", "fused_moved_transpose"], "grouped": ["attention"]}


def feeds_of(form: str, batch: int, seq: int, past: int) -> Feeds:
    if form == "grouped":
        shapes = {"q": (batch, 6, seq, 8), "k0": (batch, 2, seq + past, 8), "v0": (batch, 2, seq + past, 8)}
        return {name: numbers(*shape, seed=seed) / 4 for seed, (name, shape) in enumerate(shapes.items())}
    feeds = {"x": numbers(batch, seq, 72) / 4}
    return {**feeds, "old": numbers(batch, 3, past, 8, seed=1)} if form == "past" else feeds


@pytest.mark.parametrize("form", FORMS)
def test_moves_are_read_in_place(form: str) -> None:
    for device in (DEVICES["x86-64-v3"], DEVICES["scalar-c"]):
        module = kernels(graph(deploykit.load(parse(FORMS[form])), device), device).module
        found = [name.name_hint for name, func in module.functions.items() if isinstance(func, tirx.PrimFunc)]
        assert found == EXPECTED[form]


@pytest.mark.parametrize("form", FORMS)
def test_values(check: Check, form: str) -> None:
    runs = [feeds_of(form, *sizes) for sizes in ((1, 1, 1), (2, 5, 3), (1, 37, 40))]
    check(FORMS[form], *runs, expected=by_onnxruntime(FORMS[form], *runs), rtol=2e-5)


@pytest.mark.parametrize("axes", ["0", "1"])
def test_a_last_index_depends_on_a_size(check: Check, axes: str) -> None:
    """The last row, without its axis: its index is the size minus one."""
    text = (
        f"(float[n, m, 6] x) => (float[a, b] y) {{ i = Constant<value_int = -1>()  y = Gather<axis = {axes}>(x, i) }}"
    )
    check(text, *({"x": numbers(n, m, 6)} for n, m in ((1, 1), (3, 2), (5, 7))))


def test_values_in_c(tmp_path: Path) -> None:
    for form, text in FORMS.items():
        model = parse(text)
        bounds = {dim.name: (1, 16) for dim in deploykit.load(model).dims}
        deploykit.build(model, target="embedded", dims=bounds, output=tmp_path / form)
        feeds = feeds_of(form, 2, 5, 3)
        with deploykit.open(tmp_path / form) as session:
            np.testing.assert_allclose(
                session.run(feeds)["y"], by_onnxruntime(model, feeds)[0][0], rtol=2e-5, atol=2e-6
            )


def test_an_index_may_depend_on_a_size(check: Check) -> None:
    """A row counted from the end; a reshape drops its axis."""
    text = """(float[batch, seq, 4] x) => (float[batch, 4] y, float[batch, 4] z)
    { a = Relu(x) one = Constant <value = int64 {1}> () last = Constant <value = int64 {-1}> ()
      b = Gather <axis = 1> (a, one) c = Gather <axis = 1> (a, last)
      y = Exp(b) z = Add(c, b) }"""
    runs = [{"x": numbers(b, n, 4)} for b, n in ((1, 2), (3, 5), (2, 33))]
    check(text, *runs, expected=by_onnxruntime(text, *runs))


def test_a_reshape_that_needs_divisions_stays(check: Check) -> None:
    text = """(float[b, 3, s, 8] x) => (float[b, s, 24] y) { n = Constant<value_ints = [0, 0, 24]>()
        t = Transpose<perm = [0, 2, 1, 3]>(x)  r = Reshape(t, n)  y = Relu(r) }"""
    module = graph(deploykit.load(parse(text)), DEVICES["x86-64-v3"])
    assert "reshape" in module["main"].script()
    check(text, {"x": numbers(2, 3, 5, 8)})
