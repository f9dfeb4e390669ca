"""The models for microcontrollers, with fixed shapes and seeded weights, in float and in integers.

Four have the shapes of MLPerf Tiny (Banbury et al., 2021): `dscnn` spots keywords, `vww` finds persons in pictures
with a MobileNetV1 of a quarter of the width, `resnet8` classifies pictures, `autoencoder` finds anomalies in sounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from bench.gpu import fixed
from bench.models.cnn import cnn
from bench.models.dscnn import dscnn
from bench.models.graph import Graph
from bench.models.transformer import KEYS, attended, dense, integers, merge_heads, normalised, split_heads
from deploykit.errors import UnsupportedModelError
from deploykit.quantization.static.clips import clip_before_rounding

_TENSOR = re.compile("_QuantizeLinear_Input$")
"""What ONNX Runtime appends to the name of an output of the model."""

PROBABILITIES: Mapping[str, tuple[float, int]] = {"int8": (1 / 256, -128), "int16": (1 / 32768, 0)}
"""The scale and the zero point of what a softmax makes, by the dtype of activations."""

SAMPLES = 16
"""How many random inputs activations are calibrated on."""


def vww() -> onnx.ModelProto:
    """image[1, 3, 96, 96] -> classes[1, 2], a MobileNetV1 of a quarter of the width (Howard et al., 2017)."""
    graph = Graph("vww")
    value = _conv(graph, graph.input("image", (1, 3, 96, 96)), 3, 8, 3, stride=2)
    channels = 8
    wider_and_stride = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
    for wider, stride in wider_and_stride:
        value = _conv(graph, value, channels, channels, 3, stride, group=channels)
        value = _conv(graph, value, channels, wider, 1)
        channels = wider
    _classified(graph, value, channels, 2)
    return graph.model()


def resnet8() -> onnx.ModelProto:
    """image[1, 3, 32, 32] -> classes[1, 10], three residual blocks (He et al., 2016)."""
    graph = Graph("resnet8")
    value = _conv(graph, graph.input("image", (1, 3, 32, 32)), 3, 16, 3)
    channels = 16
    for wider, stride in ((16, 1), (32, 2), (64, 2)):
        inner = _conv(graph, value, channels, wider, 3, stride)
        inner = _conv(graph, inner, wider, wider, 3, relu=False)
        beside = value if stride == 1 else _conv(graph, value, channels, wider, 1, stride, relu=False)
        value = graph.node("Relu", graph.node("Add", inner, beside))
        channels = wider
    _classified(graph, value, channels, 10)
    return graph.model()


def autoencoder() -> onnx.ModelProto:
    """features[1, 640] -> restored[1, 640], dense layers with 8 features in the middle (Koizumi et al., 2019)."""
    graph = Graph("autoencoder")
    value, width = graph.input("features", (1, 640)), 640
    for wider in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        value = graph.node("Relu", graph.node("Gemm", value, graph.weight(width, wider, gain=2), graph.weight(wider)))
        width = wider
    graph.output(graph.node("Gemm", value, graph.weight(width, 640), graph.weight(640), output="restored"), (1, 640))
    return graph.model()


def lstm() -> onnx.ModelProto:
    """features[1, 25, 16] -> classes[1, 6], an LSTM of width 32 over 25 frames."""
    graph = Graph("lstm")
    frames, width, hidden = 25, 16, 32
    value = graph.node("Transpose", graph.input("features", (1, frames, width)), perm=[1, 0, 2])
    weights = [graph.weight(1, 4 * hidden, size, fan_in=size) for size in (width, hidden)]
    states = graph.node("LSTM", value, *weights, graph.weight(1, 8 * hidden, fan_in=hidden), hidden_size=hidden)
    last = graph.node("Reshape", graph.node("Gather", states, integers(graph, frames - 1)), integers(graph, 1, hidden))
    scores = graph.node("Gemm", last, graph.weight(hidden, 6), graph.weight(6))
    graph.output(graph.node("Softmax", scores, output="classes", axis=-1), (1, 6))
    return graph.model()


def transformer() -> onnx.ModelProto:
    """features[1, 32, 32] -> classes[1, 6], one encoder layer with two heads over 32 frames (Vaswani et al., 2017)."""
    graph = Graph("transformer")
    width, heads, hidden = 32, 2, 64
    value = graph.input("features", (1, 32, width))
    queries, keys, values = (
        split_heads(graph, dense(graph, value, width, width), heads, width // heads, order)
        for order in ((0, 2, 1, 3), KEYS, (0, 2, 1, 3))
    )
    merged = merge_heads(graph, attended(graph, queries, keys, values, width // heads), width)
    value = normalised(graph, graph.node("Add", value, dense(graph, merged, width, width)), width)
    inner = dense(graph, graph.node("Relu", dense(graph, value, width, hidden)), hidden, width)
    value = normalised(graph, graph.node("Add", value, inner), width)
    pooled = graph.node("ReduceMean", value, axes=[1], keepdims=0)
    scores = graph.node("Gemm", pooled, graph.weight(width, 6), graph.weight(6))
    graph.output(graph.node("Softmax", scores, output="classes", axis=-1), (1, 6))
    return graph.model()


def _of_one(make: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    return lambda: fixed(make(), {"batch": 1})


MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "dscnn": _of_one(dscnn),
    "vww": vww,
    "resnet8": resnet8,
    "autoencoder": autoencoder,
    "cnn": _of_one(cnn),
    "lstm": lstm,
    "transformer": transformer,
}


def sample(model: onnx.ModelProto, seed: int) -> np.ndarray:
    """A random value for the only input of a model."""
    port = model.graph.input[0].type.tensor_type
    shape = [dim.dim_value for dim in port.shape.dim]
    random = np.random.default_rng(seed)
    dtype = helper.tensor_dtype_to_np_dtype(port.elem_type)
    if dtype.kind == "i":
        ends = np.iinfo(dtype)
        return random.integers(ends.min, ends.max + 1, shape).astype(dtype)
    return random.standard_normal(shape).astype(np.float32)


def quantized(model: onnx.ModelProto, dtype: str = "int8") -> onnx.ModelProto:
    """The model with weights of 8 bits and activations of `dtype`, whose input and output are integers, too, as
    firmware has them. It is quantised by ONNX Runtime with a scale for each channel of a weight, and calibrated on
    random inputs. With int16 all zero points are 0, a Relu is computed before its input is rounded, and the weight of a
    dense layer has one scale, which is all that CMSIS-NN takes.

    Raises `UnsupportedModelError` if ONNX Runtime leaves the model in float.
    """
    weights = _one_scale(model) if dtype == "int16" else {}
    first = _quantized(model, dtype, weights)
    return with_integer_ports(_quantized(model, dtype, weights | _fixed_scales(first, dtype)))


def _quantized(model: onnx.ModelProto, dtype: str, overrides: Mapping[str, Any]) -> onnx.ModelProto:
    """The model in integers; `overrides` are scales and zero points of tensors, as ONNX Runtime takes them."""
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            name = model.graph.input[0].name
            self._left: Iterator[dict[str, np.ndarray]] = ({name: sample(model, seed)} for seed in range(SAMPLES))

        def get_next(self) -> Any:
            return next(self._left, None)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(shape_inference.infer_shapes(model), path.with_name("float.onnx"))
        quantization.quantize_static(
            path.with_name("float.onnx"),
            path,
            Samples(),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type={"int8": quantization.QuantType.QInt8, "int16": quantization.QuantType.QInt16}[dtype],
            weight_type=quantization.QuantType.QInt8,
            extra_options={"TensorQuantOverrides": dict(overrides), "ActivationSymmetric": dtype == "int16"},
        )
        result = onnx.load(path)
    if dtype == "int16":
        clip_before_rounding(result.graph)
    return result


def _one_scale(model: onnx.ModelProto) -> dict[str, Any]:
    """One scale for all outputs of dense layers."""
    from onnxruntime import quantization

    dense_weights = [node.input[1] for node in model.graph.node if node.op_type == "Gemm"]
    return {name: [{"quant_type": quantization.QuantType.QInt8, "symmetric": True}] for name in dense_weights}


def _fixed_scales(model: onnx.ModelProto, dtype: str) -> dict[str, Any]:
    """For averages and flattened tensors the scale of what they are of, and for softmax that of probabilities, which
    are the only ones that libraries of kernels have for them (LiteRT's quantisation specification)."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    restored = {node.output[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    quantized_from = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    found: dict[str, Any] = {}
    for node in model.graph.node:
        if node.op_type in ("GlobalAveragePool", "Flatten"):
            source = restored[node.input[0]]
            before = quantized_from[source.input[0]]
            numbers = found[before][0] if before in found else _scale(*(constants[name] for name in source.input[1:]))
            found[node.output[0]] = [numbers]
        elif node.op_type == "Softmax":
            scale, zero = PROBABILITIES[dtype]
            found[_TENSOR.sub("", node.output[0])] = [_scale(scale, np.array(zero, dtype))]
    return found


def _scale(scale: Any, zero: np.ndarray) -> dict[str, np.ndarray]:
    return {"scale": np.array(scale, np.float32), "zero_point": zero}


def with_integer_ports(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the QuantizeLinear of its only input and the DequantizeLinear of its only output."""
    graph = model.graph
    (source,), (result,) = graph.input, graph.output
    readers = [node for node in graph.node if source.name in node.input]
    writers = [node for node in graph.node if result.name in node.output]
    if [node.op_type for node in (*readers, *writers)] != ["QuantizeLinear", "DequantizeLinear"]:
        raise UnsupportedModelError(f"ONNX Runtime leaves {graph.name} in float")
    constants = {tensor.name: tensor for tensor in graph.initializer}
    dtype = constants[readers[0].input[2]].data_type
    for port, name in ((source, readers[0].output[0]), (result, writers[0].input[0])):
        shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        port.CopyFrom(helper.make_tensor_value_info(name, dtype, shape))
    kept = [node for node in graph.node if node not in (readers[0], writers[0])]
    del graph.node[:]
    graph.node.extend(kept)
    onnx.checker.check_model(model)
    return model


def _conv(
    graph: Graph, value: str, channels: int, wider: int, kernel: int, stride: int = 1, group: int = 1, relu: bool = True
) -> str:
    """A convolution with padding as TensorFlow's `same` on even sizes: nothing before the first element for a stride
    of 2."""
    weight, bias = graph.weight(wider, channels // group, kernel, kernel, gain=2 if relu else 1), graph.weight(wider)
    before, both = (kernel - stride) // 2 if kernel > stride else 0, max(kernel - stride, 0)
    pads = [before, before, both - before, both - before]
    made = graph.node(
        "Conv", value, weight, bias, strides=[stride] * 2, pads=pads, group=group, kernel_shape=[kernel] * 2
    )
    return graph.node("Relu", made) if relu else made


def _classified(graph: Graph, value: str, channels: int, classes: int) -> None:
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", value))
    scores = graph.node("Gemm", pooled, graph.weight(channels, classes), graph.weight(classes))
    graph.output(graph.node("Softmax", scores, output="classes", axis=-1), (1, classes))
