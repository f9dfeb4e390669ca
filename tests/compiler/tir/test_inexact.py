"""Float arithmetic that a simplifier for real numbers would change: infinities, rounding and NaN are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from tvm import tirx
from tvm.ir.prim import expr as prim

import deploykit
from deploykit.compiler.tir.inexact import inexact
from tests.compiler.codegen.harness import EMITTERS, Library, build, elementwise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPECIAL = (0.0, -0.0, 1.0, -2.5, 3.75e9, 1e-30, 1e30, np.inf, -np.inf, np.nan)
MAGIC = 12582912.0
"""1.5 * 2^23: adding and subtracting it rounds to an integer."""


def number(condition: Any) -> Any:
    return tirx.Select(condition, tirx.const(1.0, "float32"), tirx.const(0.0, "float32"))


def constant(value: float) -> Any:
    return tirx.const(value, "float32")


CASES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "same": (lambda x, _: x - x, lambda x, _: x - x),
    "rounded": (lambda x, _: (x + constant(MAGIC)) - constant(MAGIC), lambda x, _: (x + MAGIC) - MAGIC),
    "sum_less_left": (lambda x, y: (x + y) - x, lambda x, y: (x + y) - x),
    "sum_less_right": (lambda x, y: (x + y) - y, lambda x, y: (x + y) - y),
    "less_sum": (lambda x, y: x - (y + x), lambda x, y: x - (y + x)),
    "products": (lambda x, y: x * y - x * y, lambda x, y: x * y - x * y),
    "chosen": (lambda x, y: tirx.Select(x < y, x, y) - y, lambda x, y: np.where(x < y, x, y) - y),
    "chosen_twice": (
        lambda x, y: tirx.Select(x < y, x + y, y) - tirx.Select(x < y, x, y),
        lambda x, y: np.where(x < y, x + y, y) - np.where(x < y, x, y),
    ),
    "least": (lambda x, y: tirx.min(x, y) - y, lambda x, y: np.where(x < y, x, y) - y),
    "by_zero": (lambda x, y: y / (x - x), lambda x, y: y / (x - x)),
    "equal": (lambda x, _: number(prim.EQ(x, x)), lambda x, _: ~np.isnan(x)),
    "unequal": (lambda x, _: number(prim.NE(x, x)), lambda x, _: np.isnan(x)),
    "not_less": (lambda x, y: number(tirx.Not(x < y)), lambda x, y: ~(x < y)),
    "not_both": (lambda x, y: number(tirx.Not(tirx.all(x < y, x > 1))), lambda x, y: ~((x < y) & (x > 1))),
    "ordered": (lambda x, y: number(tirx.any(x < y, y <= x)), lambda x, y: (x < y) | (y <= x)),
    "apart": (lambda x, y: number(tirx.any(x < y, y < x)), lambda x, y: (x < y) | (y < x)),
    "neither": (lambda x, y: number(tirx.Not(tirx.any(x < y, y < x))), lambda x, y: ~((x < y) | (y < x))),
}


MODELS = (
    "a = Add(x, c) z = Sub(a, c)",
    "a = Add(x, y) z = Sub(a, y)",
    "a = Mul(x, y) b = Neg(a) d = Neg(a) z = Sub(b, d)",
    "a = Sub(x, x) z = Div(y, a)",
    "a = Less(x, y) b = Where(a, x, y) z = Sub(b, y)",
    "a = Equal(x, x) b = Not(a) z = Where(b, y, x)",
    "a = Less(x, y) b = Greater(y, x) d = And(a, b) e = Not(d) z = Where(e, x, y)",
    "a = Less(x, y) b = Less(y, x) d = Or(a, b) e = Not(d) z = Where(e, x, y)",
)
"""Models in which the simplifier meets such arithmetic only after operators are fused."""


@pytest.fixture(scope="module", params=EMITTERS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    kernels = {
        f"{name}_{lanes or 1}": elementwise(inexact(CASES[name][0]), ["float32"] * 2, lanes=lanes)
        for name in CASES
        for lanes in ((None, 4) if request.param == "native" else (None,))
    }
    return build(kernels, request.param, tmp_path_factory.mktemp("inexact"))


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_floats(library: Library, name: str) -> None:
    x, y = (np.ascontiguousarray(grid, np.float32).ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = CASES[name][1](x, y).astype(np.float32)
    for lanes in (1, 4):
        if f"{name}_{lanes}" in library.lowered:
            result = np.empty_like(x)
            library.run(f"{name}_{lanes}", [x, y, result], [len(x) // lanes])
            np.testing.assert_array_equal(result, expected, err_msg=f"{lanes} lanes")


@pytest.mark.parametrize("target", ["host", "embedded"])
@pytest.mark.parametrize("nodes", MODELS)
def test_fused_operators_are_those_of_floats(target: str, nodes: str, tmp_path: Path) -> None:
    constant = "<float c = {12582912.0}>" if " c)" in nodes else ""
    text = (
        f'<ir_version: 9, opset_import: ["": 20]> g (float[n] x, float[n] y) => (float[n] z) {constant} {{ {nodes} }}'
    )
    model = onnx.parser.parse_model(text)
    x, y = (np.ascontiguousarray(grid, np.float32).ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        (expected,) = ReferenceEvaluator(model).run(None, {"x": x, "y": y})
    deploykit.build(model, target, {"n": (1, 200)}, tmp_path / "built")
    with deploykit.open(tmp_path / "built") as session:
        np.testing.assert_array_equal(session(x=x, y=y)["z"], expected)
