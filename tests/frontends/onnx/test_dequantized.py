"""Graphs in QDQ form: their products are computed in integers, and their results are within one unit of ONNX Runtime's,
which computes in floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import deploykit
from deploykit.compiler.operators.quantized import quantization
from tests.frontends.onnx.harness import Check


class Qdq:
    """A graph under construction in which every activation is quantised and dequantised again. Integers of 16 bits have
    a finer scale."""

    def __init__(self, dtype: str, weights: str = "int8") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.dtype, self.weights = dtype, weights
        self.zero = np.asarray({"uint8": 100, "int8": -20, "int16": -1500}[dtype], dtype)
        self.finer = np.float32(0.01 if dtype == "int16" else 1)
        self.rng = np.random.default_rng(0)

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def quantize(self, x: str, scale: float) -> str:
        return self.node("QuantizeLinear", x, *self.parameters(scale))

    def parameters(self, scale: float) -> tuple[str, str]:
        return self.constant(np.float32(scale) * self.finer), self.constant(self.zero)

    def through(self, x: str, scale: float = 0.05) -> str:
        """`x` quantised and dequantised."""
        y = self.quantize(x, scale)
        return self.node("DequantizeLinear", y, *self.parameters(scale))

    def weight(self, *shape: int, axis: int = 0) -> str:
        """Weights with a scale for each position of `axis`."""
        scales = self.rng.uniform(0.001, 0.01, shape[axis]).astype(np.float32)
        values = self.rng.integers(-64, 65, shape).astype(np.int8)
        zeros = np.zeros(shape[axis], np.int8)
        if self.weights == "int4":
            scales, values, zeros = scales * 8, (values // 8).astype(ml_dtypes.int4), zeros.astype(ml_dtypes.int4)
        operands = (self.constant(values), self.constant(scales), self.constant(zeros))
        return self.node("DequantizeLinear", *operands, axis=axis)

    def bias(self, count: int) -> str:
        values = self.rng.integers(-900, 900, count).astype(np.int32)
        return self.node("DequantizeLinear", self.constant(values), self.constant(np.float32(0.0005)))

    def model(self, y: str, shape: list[Any], rank: int = 4) -> onnx.ModelProto:
        """The model from float `x` to the quantised `y` of this rank."""
        element = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.nodes.append(helper.make_node("Identity", [self.quantize(y, 0.0213)], ["y"]))
        graph = helper.make_graph(
            self.nodes,
            "qdq",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", element, [f"y{axis}" for axis in range(rank)])],
            self.constants,
        )
        opset = helper.make_opsetid(
            "", 17 if (self.dtype, self.weights) in (("int8", "int8"), ("uint8", "int8")) else 21
        )
        return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def conv(g: Qdq, outputs: int, inputs: int, kernel: int, **attributes: Any) -> str:
    channels = inputs // attributes.get("group", 1)
    return g.node("Conv", g.through("x"), g.weight(outputs, channels, kernel, kernel), g.bias(outputs), **attributes)


def clip(g: Qdq, x: str, low: float, high: float) -> str:
    return g.node("Clip", x, g.constant(np.float32(low)), g.constant(np.float32(high)))


def attention(g: Qdq) -> str:
    x = g.through("x")
    return g.node("MatMul", x, g.through(g.node("Transpose", x, perm=[0, 1, 3, 2])))


def gemm(g: Qdq, **attributes: Any) -> str:
    weight = g.weight(10, 12) if attributes else g.weight(12, 10, axis=1)
    return g.node("Gemm", g.node("Flatten", g.through("x")), weight, g.bias(10), **attributes)


def residual(g: Qdq) -> str:
    y = g.through(conv(g, 3, 3, 3, pads=[1] * 4))
    return g.node("Add", g.through("x"), y)


def biased(g: Qdq) -> str:
    return g.node("Add", g.node("MatMul", g.through("x"), g.weight(4, 33, axis=1)), g.bias(33))


def channels_last(g: Qdq) -> str:
    """A convolution as exporters of TensorFlow write it: pictures (n, 3, h, w) stand for (n, h, w, c)."""
    pictures = g.node("Transpose", g.quantize("x", 0.05), perm=[0, 2, 3, 1])
    first = g.node("DequantizeLinear", g.node("Transpose", pictures, perm=[0, 3, 1, 2]), *g.parameters(0.05))
    y = g.node("Conv", first, g.weight(24, 3, 3, 3), g.bias(24))
    return g.node("Transpose", g.through(g.node("Relu", y), 0.02), perm=[0, 2, 3, 1])


def swish(x: str, g: Qdq) -> str:
    return g.node("Mul", x, g.node("Sigmoid", x))


GRAPHS = {
    "conv": lambda g: conv(g, 24, 3, 3, pads=[1] * 4),
    "relu": lambda g: g.node("Relu", conv(g, 24, 3, 3, strides=[2, 2])),
    "clip": lambda g: clip(g, conv(g, 17, 3, 1), -1.0, 1.5),
    "wide-clip": lambda g: clip(g, conv(g, 17, 3, 1), -100.0, 100.0),
    "depthwise": lambda g: conv(g, 3, 3, 3, group=3, pads=[1] * 4, strides=[2, 2]),
    "max-pool": lambda g: g.node("MaxPool", conv(g, 20, 3, 3), kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
    "average-pool": lambda g: g.node("AveragePool", conv(g, 20, 3, 3), kernel_shape=[3, 3], pads=[1] * 4),
    "global": lambda g: g.node("GlobalAveragePool", conv(g, 20, 3, 3)),
    "concat": lambda g: g.node("Concat", conv(g, 20, 3, 1), g.through("x"), axis=1),
    "transpose": lambda g: g.node("Transpose", conv(g, 20, 3, 1), perm=[2, 0, 3, 1]),
    "sigmoid": lambda g: g.node("Sigmoid", conv(g, 20, 3, 3)),
    "swish": lambda g: swish(g.through(conv(g, 20, 3, 3)), g),
    "residual": residual,
    "residual-relu": lambda g: g.node("Relu", residual(g)),
    "residual-clips": lambda g: clip(g, clip(g, residual(g), -0.7, 9.0), -1.1, 1.3),
    "added": lambda g: g.node("Add", g.constant(g.rng.random((1, 24, 1, 1), np.float32)), conv(g, 24, 3, 3)),
    "channels-last": channels_last,
    "matmul": lambda g: g.node("MatMul", g.through("x"), g.weight(4, 33, axis=1)),
    "matmul-relu": lambda g: g.node("Relu", biased(g)),
    "attention": attention,
    "gemm": gemm,
    "gemm-transposed": lambda g: gemm(g, transB=1),
}
IMAGES = ["n", 3, "h", "w"], [(1, 3, 9, 14), (2, 3, 16, 16), (1, 3, 4, 4)]
ROWS = ["n", 3, "k", 4], [(1, 3, 5, 4), (2, 3, 40, 4)]
MATRICES = ["n", 3, 2, 2], [(1, 3, 2, 2), (9, 3, 2, 2)]
INPUTS = {"matmul": ROWS, "matmul-relu": ROWS, "attention": ROWS, "gemm": MATRICES, "gemm-transposed": MATRICES}


@pytest.mark.sampled(part=9)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("name", GRAPHS)
def test_results_agree_within_one_unit(check: Check, name: str, dtype: str) -> None:
    within_one_unit(check, name, Qdq(dtype))


@pytest.mark.sampled(part=9)
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("name", ["relu", "depthwise", "matmul", "gemm-transposed"])
def test_weights_of_4_bits(check: Check, name: str, dtype: str) -> None:
    within_one_unit(check, name, Qdq(dtype, "int4"))


def within_one_unit(check: Check, name: str, builder: Qdq) -> None:
    shape, sizes = INPUTS.get(name, IMAGES)
    model = builder.model(GRAPHS[name](builder), shape, 2 if name.startswith("gemm") else 4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with check.session(model, *({"x": np.empty(size)} for size in sizes)) as session:
        for size in sizes:
            x = np.random.default_rng(1).standard_normal(size, dtype=np.float32)
            (expected,) = reference.run(None, {"x": x})
            got = session(x=x)["y"]
            assert got.dtype == expected.dtype
            assert len(np.unique(expected)) > 3
            difference = np.abs(got.astype(np.int32) - expected.astype(np.int32))
            assert difference.max() <= 1, size
            assert (difference > 0).mean() < 0.03, size


NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.0125, -0.7, 0.72, 1.3, 7.0, 1e30, -1e30, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_clipped_integers_are_those_of_clipped_numbers(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Next to the same models, whose numbers are clipped before they become integers."""
    left, right = (side.ravel() for side in np.meshgrid(np.float32(NUMBERS), np.float32(NUMBERS)))
    x = np.stack([left, right]).reshape(1, 2, 1, -1)
    x = np.concatenate([x, np.random.default_rng(0).uniform(-2, 2, x.shape).astype(np.float32)])

    def results(ends: list[tuple[float, float]]) -> np.ndarray:
        g = Qdq(dtype)
        y = g.node("Add", *(g.through(g.node("Gather", "x", g.constant(np.int64(i)), axis=1)) for i in (0, 1)))
        for low, high in ends:
            y = clip(g, y, low, high)
        deploykit.build(g.model(y, ["n", 2, 1, "w"], 3), output=tmp_path / "model")
        with deploykit.open(tmp_path / "model") as session:
            return np.asarray(session(x=x)["y"])

    for ends in (
        [(0.0, np.inf)],
        [(-0.7, 0.72)],
        [(-np.inf, 1.3), (-1.0, 2.0)],
        [(2.0, 3.0), (-1.0, 1.0)],
        [(1.0, 1.0)],
    ):
        clipped = results(ends)
        with monkeypatch.context() as patched:
            patched.setattr(quantization, "unclipped", lambda x, by: (x, by))
            np.testing.assert_array_equal(clipped, results(ends), err_msg=str(ends))
        assert len(np.unique(clipped)) > 3 or ends[0] in ((1.0, 1.0), (2.0, 3.0))


def test_nets_of_integers_have_no_tensors_of_floats(tmp_path: Path) -> None:
    for name in ("residual-relu", "residual-clips", "matmul-relu"):
        g = Qdq("int8")
        shape = INPUTS.get(name, IMAGES)[0]
        dims = {dim: (1, 9) for dim in shape if isinstance(dim, str)}
        deploykit.build(g.model(GRAPHS[name](g), shape), "embedded", dims, tmp_path / name, cpu="cortex-m4")
        kernels = (tmp_path / name / "kernels.c").read_text()
        assert "int8_t *restrict quantize" in kernels or "int8_t *restrict requantize" in kernels
        assert "float *restrict add" not in kernels, name


def test_transposes_around_convolutions_of_integers_vanish() -> None:
    g = Qdq("int8")
    names = [var.name_hint for var in deploykit.load(g.model(channels_last(g), ["n", 3, "h", "w"])).module.functions]
    assert sum(name.startswith("transpose") for name in names) == 1, names


def test_weights_stay_8_bits_wide(tmp_path: Path) -> None:
    builder = Qdq("uint8")
    y = builder.through(builder.node("Conv", builder.through("x"), builder.weight(256, 64, 3, 3), pads=[1] * 4))
    y = builder.node("Conv", y, builder.weight(256, 1, 3, 3), group=256)
    deploykit.build(builder.model(y, ["n", 64, "h", "w"]), output=tmp_path / "model")
    size = (tmp_path / "model" / "weights.bin").stat().st_size
    assert size < 1.1 * (256 * 64 * 9 + 256 * 9)


def test_values_are_not_quantised_twice_in_the_same_way() -> None:
    builder = Qdq("int8")
    y = builder.through(builder.node("Reshape", builder.through("x"), builder.constant(np.array([0, -1]))))
    y = builder.node("Transpose", y, perm=[1, 0])
    model = deploykit.load(builder.model(builder.through(y), ["n", 4, "m"], 2))
    names = [var.name_hint for var in model.module.functions]
    assert sum(name.startswith("quantize") for name in names) == 2, names


def test_expensive_functions_of_8_bit_integers_are_looked_up() -> None:
    for function, looked_up in (("Tanh", True), ("Abs", False)):
        builder = Qdq("int8")
        y = builder.node(function, builder.through("x"))
        names = [var.name_hint for var in deploykit.load(builder.model(y, ["n", "m"], 2)).module.functions]
        assert any(name.startswith("look_up") for name in names) == looked_up, names
