"""Measures the errors of functions on WebGPU, in headless Chromium.

    python -m bench.shader_math [NAME ...]

Each operator of `FUNCTIONS` is compared with double precision on bit patterns spread over all of float32, including
special numbers, and on many numbers around 0. Errors are in units of the last place. Numbers below 2^-126 are ignored,
as operands and as results, because shaders may treat them as 0.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import deploykit
from bench.math import arguments, distance
from deploykit.cli.console import results, table

SMALLEST = 2.0**-126
AROUND = 1e5
"""The largest magnitude of the additional numbers around 0."""
COUNT = 200_000

Array = np.ndarray


@dataclass(frozen=True)
class Function:
    """A function to measure. `exact` computes it in float64; `ulp` is the promised error, rounded up."""

    exact: Callable[..., Array]
    ulp: float
    operands: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


FUNCTIONS = {
    "Exp": Function(np.exp, 1.5),
    "Log": Function(np.log, 1.5),
    "Sin": Function(np.sin, 1.6),
    "Cos": Function(np.cos, 1.6),
    "Tan": Function(np.tan, 3.5),
    "Asin": Function(np.arcsin, 2.5),
    "Acos": Function(np.arccos, 1.5),
    "Atan": Function(np.arctan, 2.5),
    "Sinh": Function(np.sinh, 2.0),
    "Cosh": Function(np.cosh, 2.0),
    "Tanh": Function(np.tanh, 1.5),
    "Asinh": Function(np.arcsinh, 2.0),
    "Acosh": Function(np.arccosh, 2.0),
    "Atanh": Function(np.arctanh, 2.0),
    "Sigmoid": Function(lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))), 3.0),
    "Softplus": Function(_softplus, 2.5),
    "Erf": Function(np.vectorize(math.erf, otypes=["d"]), 1.5),
    "Sqrt": Function(np.sqrt, 2.0),
    "Reciprocal": Function(np.reciprocal, 2.5),
    "Pow": Function(np.power, 2.5, operands=2),
    "Div": Function(np.divide, 2.5, operands=2),
    "Mod": Function(np.fmod, 0.0, operands=2, attributes={"fmod": 1}),
}
"""Functions by the name of their operator."""


def model_of(names: Sequence[str], dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A model with one output per operator, computed from the inputs `x` and `y`."""
    nodes = [
        helper.make_node(name, ["x", "y"][: FUNCTIONS[name].operands], [name], **FUNCTIONS[name].attributes)
        for name in names
    ]
    inputs = [helper.make_tensor_value_info(name, dtype, ["n"]) for name in ("x", "y")]
    outputs = [helper.make_tensor_value_info(name, dtype, ["n"]) for name in names]
    graph = helper.make_graph(nodes, "functions", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def operands() -> list[Array]:
    """The inputs of `model_of`: the operands of `bench.math`, and numbers around 0."""
    rng = np.random.default_rng(2)
    near = rng.uniform(-1, 1, COUNT) * AROUND ** rng.uniform(-1, 1, COUNT)
    powers = rng.uniform(-8, 8, COUNT)
    dense = (near.astype("float32"), powers.astype("float32"))
    return [np.concatenate(pair) for pair in zip(arguments(2), dense, strict=True)]


def errors(name: str, given: Sequence[Array], got: Array) -> Array:
    """The error of each element, in units of the last place; infinite if a special number differs."""
    function = FUNCTIONS[name]
    taken = given[: function.operands]
    with np.errstate(all="ignore"):
        exact = function.exact(*(x.astype("float64") for x in taken))
    small = (np.abs(exact) < SMALLEST) & (np.abs(got) <= SMALLEST)
    for x in taken:
        small |= (np.abs(x) < SMALLEST) & (x != 0)
    return np.where(small, 0.0, distance(got, exact))


def measure(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Measure operators; returns the rows of the table."""
    given = operands()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "functions"
        deploykit.build(model_of(names), "webgpu", output=folder)
        with deploykit.open(folder, device="webgpu") as session:
            found = session.run(dict(zip(("x", "y"), given, strict=True)))
    rows: list[tuple[str, ...]] = []
    for name in names:
        wrong = errors(name, given, found[name])
        worst = int(np.argmax(wrong))
        place = ", ".join(f"{x[worst]:.9g}" for x in given[: FUNCTIONS[name].operands])
        rows.append((name, f"{wrong[worst]:.2f}", place, f"{np.quantile(wrong, 0.99):.2f}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of functions on WebGPU.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FUNCTIONS)}")
    shown = table("operator", ">ulp", "at", ">99 % below")
    for row in measure(parser.parse_args().names or list(FUNCTIONS)):
        shown.add_row(*row)
    results.print(shown)


if __name__ == "__main__":
    main()
