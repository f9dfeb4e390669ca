"""Random chains of elementwise operators: they build fast for every target, and their results are right.

The reference computes each operator in float64 and rounds to float32. It runs several times, with each inexact result
changed within the error of float32 arithmetic. The spread of its outputs gives the tolerance.
"""

from __future__ import annotations

import itertools
import random
import resource
from dataclasses import dataclass
from platform import machine
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import deploykit

if TYPE_CHECKING:
    from pathlib import Path

LENGTH = 12
SECONDS = 10.0
"""Limit of the user CPU time of a build, with that of the compilers that it starts."""
SAMPLES = 12
CHAINS = 40
SPECIAL = (0.7, 0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan)
PLATFORMS = {
    "host": ("host", "native"),
    "x86-64-v2": ("host", "x86-64-v2"),
    "armv8-a": ("host", "armv8-a"),
    "embedded": ("embedded", "native"),
    "webgpu": ("webgpu", "native"),
}
"""Target and CPU, by name of a platform."""

EXACT = ("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Relu", "ThresholdedRelu", "Identity", "IsNaN", "IsInf")
ROUNDED = (
    *("Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"),
    *("Asinh", "Acosh", "Atanh", "Tanh", "LeakyRelu", "HardSwish", "Softsign", "Mish", "Shrink"),
)
ABSOLUTE = ("Elu", "Selu", "Celu", "Gelu", "Sigmoid", "HardSigmoid", "Softplus")
"""Operators whose error is small compared with 1, not with the result."""
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")
COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
SMALL = 1e-6


@dataclass(frozen=True)
class Chain:
    """A model from `x` to `y`. Each result may be an operand of any later node."""

    model: onnx.ModelProto

    def __call__(self, x: np.ndarray, noise: np.random.Generator | None = None) -> np.ndarray:
        """The output. With `noise`, each inexact result has a random error within what is allowed."""
        values: dict[str, np.ndarray] = {"x": x} | {
            t.name: onnx.numpy_helper.to_array(t) for t in self.model.graph.initializer
        }
        for node in self.model.graph.node:
            values[node.output[0]] = _step(node, [values[name] for name in node.input], noise)
        return values["y"]


def chain(seed: int) -> Chain:
    choice = random.Random(seed)
    values, nodes = ["x"], []

    def add(operator: str, *operands: str, **attributes: int) -> None:
        nodes.append(helper.make_node(operator, operands, [f"v{len(nodes)}"], **attributes))

    def any_value() -> str:
        return choice.choice(values)

    for _ in range(LENGTH):
        last = values[-1]
        kind = choice.random()
        if kind < 0.5:
            add(choice.choice((*EXACT[:-2], *ROUNDED, *ABSOLUTE)), last)
        elif kind < 0.75:
            add(choice.choice(BINARY), *choice.sample([last, any_value()], 2))
        elif kind < 0.9:
            if choice.random() < 0.5:
                add(choice.choice(EXACT[-2:]), last)
            else:
                add(choice.choice(COMPARISONS), last, any_value())
            if choice.random() < 0.5:
                add("Not", nodes[-1].output[0])
            add("Where", nodes[-1].output[0], any_value(), last)
        elif kind < 0.95:
            add("Clip", last, "low", "high")
        else:
            add("Cast", last, to=choice.choice((TensorProto.FLOAT16, TensorProto.INT32, TensorProto.DOUBLE)))
            add("Cast", nodes[-1].output[0], to=TensorProto.FLOAT)
        values.append(nodes[-1].output[0])
    nodes[-1].output[0] = "y"
    numbers = [helper.make_tensor(name, TensorProto.FLOAT, [], [end]) for name, end in (("low", -2.5), ("high", 3.0))]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph(nodes, f"chain{seed}", [x], [y], numbers)
    return Chain(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


def _step(node: onnx.NodeProto, operands: list[np.ndarray], noise: np.random.Generator | None) -> np.ndarray:
    """The result of a node, rounded to float32, with an error if there is `noise`."""
    if node.op_type == "Cast":
        return _cast(node.attribute[0].i, operands[0], noise)
    wide = [v.astype(np.float64) if v.dtype == np.float32 else v for v in operands]
    inputs = [f"i{k}" for k in range(len(wide))]
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in zip(inputs, wide, strict=True)
    ]
    single = helper.make_node(node.op_type, inputs, ["o"])
    single.attribute.extend(node.attribute)
    out = onnx.ValueInfoProto(name="o")
    graph = helper.make_graph([single], "step", ports, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (result,) = ReferenceEvaluator(model).run(None, dict(zip(inputs, wide, strict=True)))
    if result.dtype == np.bool_:
        return np.asarray(result)
    if noise is not None and node.op_type in (*ROUNDED, *ABSOLUTE, *BINARY[:-2]):
        off = noise.uniform(-SMALL, SMALL, result.shape)
        size = np.abs(result)
        if node.op_type in ABSOLUTE:
            size = size + 1
        elif node.op_type in ("Add", "Sub"):
            size = size + sum(np.abs(operand) for operand in wide)  # with FMA, the product is not rounded
        result = result + off * size
    return np.asarray(result, np.float32)


def _cast(dtype: int, x: np.ndarray, noise: np.random.Generator | None) -> np.ndarray:
    """A cast. NaN and numbers beyond int32 become its least number, as on x86-64. To float16, with `noise`, a number
    near the middle between two neighbours may become either."""
    if dtype == TensorProto.INT32:
        return np.where(np.abs(x) < 2.0**31, np.nan_to_num(x), -(2.0**31)).astype(np.int32)
    off = 0 if noise is None or dtype != TensorProto.FLOAT16 else noise.uniform(-(2.0**-11), 2.0**-11, x.shape)
    return (x * (1 + np.asarray(off, x.dtype))).astype(helper.tensor_dtype_to_np_dtype(dtype))


def assert_close(found: np.ndarray, model: Chain, x: np.ndarray) -> None:
    noise = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        runs = np.stack([model(x), *(model(x, noise) for _ in range(SAMPLES))]).astype(np.float64)
        alike = (np.isnan(runs) == np.isnan(runs[0])).all(0) & (np.isinf(runs) == np.isinf(runs[0])).all(0)
        spread = np.where(np.isfinite(runs[0]), np.ptp(runs, axis=0), 0)
    tolerance = 4 * spread + SMALL * np.abs(runs[0]) + 1e-30
    close = np.isclose(found, runs[0], rtol=0, atol=0, equal_nan=True) | (np.abs(found - runs[0]) <= tolerance)
    wrong = alike & ~close
    operators = " ".join(node.op_type for node in model.model.graph.node)
    assert not wrong.any(), f"{operators}: of {x[wrong]} {found[wrong]} instead of {runs[0][wrong]}"


def cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime for usage in used)


@pytest.fixture(scope="module", params=PLATFORMS)
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a platform, after a first build that loads the compiler and fills the caches of C compilers."""
    build(chain(0), request.param, tmp_path_factory.mktemp("first"))
    return str(request.param)


def build(made: Chain, platform: str, folder: Path) -> float:
    """Build the model; returns the CPU seconds that the build took."""
    target, cpu = PLATFORMS[platform]
    before = cpu_seconds()
    deploykit.build(made.model, target, {"n": (1, 99)}, folder, cpu=cpu)
    return cpu_seconds() - before


@pytest.mark.sampled(part=32)
@pytest.mark.parametrize("seed", range(CHAINS))
def test_random_chains_build_fast_and_are_right(platform: str, seed: int, tmp_path: Path) -> None:
    made = chain(seed)
    assert build(made, platform, tmp_path / "built") < SECONDS
    if PLATFORMS[platform][1] == "armv8-a" and machine() == "x86_64":
        return  # `tests/runtime/test_emulated.py` runs such kernels
    with deploykit.open(tmp_path / "built") as session:
        for n in (1, 5, 37, 99):
            x = np.resize(np.concatenate([SPECIAL, np.linspace(-3, 3, 90)]), n).astype(np.float32)
            assert_close(session(x=x)["y"], made, x)


@pytest.mark.slow
def test_a_function_of_a_function_builds_fast(platform: str, tmp_path: Path) -> None:
    """Mish, in the form that exporters write, and longer chains."""
    for operators in (
        ("Softplus", "Tanh"),
        ("Softplus", "Tanh") * 3,
        ("Sin", "Cos") * 4,
        ("Softplus", "Erf", "Log") * 4,
    ):
        names = ["x", *(f"v{k}" for k in range(len(operators) - 1)), "y"]
        nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(operators, names, names[1:], strict=False)]
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
        graph = helper.make_graph(nodes, "functions", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        assert build(Chain(model), platform, tmp_path / "built") < SECONDS


@pytest.mark.slow
def test_a_long_chain_is_nested_deeper_than_python_usually_recurses(tmp_path: Path) -> None:
    names = ["x", *(f"v{k}" for k in range(279)), "y"]
    nodes = [helper.make_node("Tanh", [a], [b]) for a, b in itertools.pairwise(names)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph(nodes, "chain", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    deploykit.build(model, output=tmp_path / "built")
    reference = ReferenceEvaluator(model)
    for size in (1, 7, 33):
        values = np.linspace(-2, 2, size, dtype=np.float32)
        found = deploykit.open(tmp_path / "built")(x=values)["y"]
        np.testing.assert_allclose(found, reference.run(None, {"x": values})[0], rtol=1e-4)


NAN_KEPT = {
    "a sigmoid of a minimum": "{ a = Sub(x, x) b = Exp(x) c = Min(a, b) y = Sigmoid(c) }",
    "an error function of a maximum": "{ a = Sub(x, x) b = Sigmoid(a) c = Max(a, b) y = Erf(c) }",
    "a clip": "<float low = {-1}, float high = {1}> { a = Sub(x, x) y = Clip(a, low, high) }",
}


@pytest.mark.parametrize("text", NAN_KEPT.values(), ids=NAN_KEPT)
def test_nan_stays_nan(platform: str, text: str, tmp_path: Path) -> None:
    """Also in kernels with selections between scalars, which code generators may vectorise."""
    target, cpu = PLATFORMS[platform]
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> m (float[n] x) => (float[n] y) {text}')
    deploykit.build(model, target=target, dims={"n": (1, 64)}, cpu=cpu, output=tmp_path / "built")
    if cpu == "armv8-a" and machine() == "x86_64":
        return  # `tests/runtime/test_emulated.py` runs such kernels
    with deploykit.open(tmp_path / "built") as session:
        for n in (1, 5, 37):
            x = np.resize(np.float32([np.inf, 1, np.nan, -np.inf, 0]), n)
            assert np.isnan(session(x=x)["y"]).tolist() == (~np.isfinite(x)).tolist()
