"""Kernels over the same rows become one, whatever operators they come from, with the values of the operators."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tvm import tirx

import deploykit
from deploykit.compiler.schedules import DEVICES
from deploykit.pipeline import graph, kernels
from tests.frontends.onnx.harness import Check, numbers, parse

CONSTANTS = "two = Constant<value_float = 2.0>() one = Constant<value_float = 1.0>() e = Constant<value_float = 1e-5>()"
FORMS = {
    "by_power": """m = ReduceMean<axes = [-1]>(x) c = Sub(x, m) p = Pow(c, two) v = ReduceMean<axes = [-1]>(p)
        a = Add(v, e) d = Sqrt(a) n = Div(c, d) s = Mul(n, w) y = Add(s, z)""",
    "by_product": """m = ReduceMean<axes = [-1]>(x) c = Sub(x, m) p = Mul(c, c) v = ReduceMean<axes = [-1]>(p)
        a = Add(v, e) d = Sqrt(a) n = Div(c, d) s = Mul(n, w) y = Add(s, z)""",
    "of_a_sum": """r = Add(x, z) m = ReduceMean<axes = [-1]>(r) c = Sub(r, m) p = Pow(c, two)
        v = ReduceMean<axes = [-1]>(p) a = Add(v, e) d = Sqrt(a) y = Div(c, d)""",
    "root_mean_square": """p = Pow(x, two) v = ReduceMean<axes = [-1]>(p) a = Add(v, e) d = Sqrt(a) r = Div(one, d)
        n = Mul(x, r) y = Mul(w, n)""",
    "softmax": """m = ReduceMax<axes = [-1]>(x) c = Sub(x, m) p = Exp(c)
        l = Constant<value_ints = [-1]>() v = ReduceSum(p, l) y = Div(p, v)""",
    "operator": "r = Mul(x, w) y = LayerNormalization<axis = -1>(r, w, z)",
    "two_axes": """m = ReduceMean<axes = [1, 2]>(x) c = Sub(x, m) p = Mul(c, c) v = ReduceMean<axes = [1, 2]>(p)
        a = Add(v, e) d = Sqrt(a) y = Div(c, d)""",
}
"""Graphs from `x` to `y`."""

APART = {
    "middle": "m = ReduceMean<axes = [1]>(x) c = Sub(x, m) p = Mul(c, c) v = ReduceMean<axes = [1]>(p) y = Div(c, v)",
    "next_row": """m = ReduceMean<axes = [-1]>(x) t = Transpose<perm = [1, 0, 2]>(m) y = Sub(t, x)""",
}
"""Graphs that cannot run row by row."""


def text_of(*forms: str, width: str = "n") -> str:
    """A model with one output for each form."""
    body, outputs = CONSTANTS, []
    for form in forms:
        own = re.sub(r"\b([mcpvadnsrtl]|y)\b(?= =|[,)])", rf"\1_{form}", (FORMS | APART)[form])
        body += f" {own}"
        outputs.append(f"float[b, s, {width}] y_{form}")
    return f"(float[b, s, {width}] x, float[{width}] w, float[{width}] z) => ({', '.join(outputs)}) {{ {body} }}"


def kernels_of(text: str) -> int:
    device = DEVICES["x86-64-v3"]
    module = kernels(graph(deploykit.load(parse(text, 17)), device), device).module
    return sum(isinstance(func, tirx.PrimFunc) for func in module.functions.values())


@pytest.mark.parametrize("form", FORMS)
def test_one_kernel(form: str) -> None:
    assert kernels_of(text_of(form)) == 1


@pytest.mark.parametrize("form", APART)
def test_kernels_that_stay_apart(form: str) -> None:
    assert kernels_of(text_of(form)) > 1


def test_an_intermediate_result_that_others_need_stays(check: Check) -> None:
    text = """(float[b, n] x) => (float[b, 1] m, float[b, n] z) {
        m = ReduceMean<axes = [-1]>(x) y = Sub(x, m) p = Mul(y, y) v = ReduceMean<axes = [-1]>(p) z = Div(y, v) }"""
    assert kernels_of(text) == 2
    check(parse(text, 17), {"x": numbers(3, 70)})


def feeds_of(batch: int, rows: int, width: int) -> dict[str, np.ndarray]:
    return {"x": numbers(batch, rows, width), "w": numbers(width, seed=1), "z": numbers(width, seed=2)}


def test_values_at_any_width(check: Check) -> None:
    sizes = [(1, 1, 1), (2, 3, 7), (1, 5, 64), (3, 1, 129), (2, 2, 1000)]
    forms = [form for form in FORMS if form != "operator"]
    check(parse(text_of(*forms), 17), *(feeds_of(*size) for size in sizes), rtol=1e-4)


def test_values_at_a_known_width(check: Check) -> None:
    check(parse(text_of(*FORMS, width="77"), 17), feeds_of(1, 1, 77), feeds_of(2, 5, 77), rtol=1e-4)
