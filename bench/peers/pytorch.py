"""PyTorch in eager mode: each node of an ONNX graph becomes one or a few calls of torch, in the order of the file.

A model written in PyTorch runs like this without a compiler. Values are freed after their last use. Only the operators
and attributes of the measured models are supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from deploykit.checks.reference import Runner
from deploykit.errors import UnsupportedModelError

Tensor = Any
Attributes = Mapping[str, Any]
Operator = Callable[..., Any]


def load(model: Path, threads: int) -> Runner:
    """Load a model. Raises `UnsupportedModelError` for an operator that is not in `OPERATORS`."""
    torch.set_num_threads(threads)
    graph = onnx.load(model).graph
    unknown = sorted({node.op_type for node in graph.node} - OPERATORS.keys())
    if unknown:
        raise UnsupportedModelError(f"no translation of {', '.join(unknown)}")
    weights = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    outputs = [value.name for value in graph.output]
    nodes = [
        (
            OPERATORS[node.op_type],
            {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute},
            tuple(node.input),
            tuple(node.output),
            last,
        )
        for node, last in zip(graph.node, _last_uses(graph, {*weights, *outputs}), strict=True)
    ]

    def run(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = {**weights, **{name: torch.from_numpy(array) for name, array in arrays.items()}}
        with torch.inference_mode():
            for operator, attributes, inputs, results, last in nodes:
                made = operator(attributes, *(values[name] if name else None for name in inputs))
                several = made if isinstance(made, tuple | list) else (made,)
                values.update(zip(results, several, strict=False))
                for name in last:
                    del values[name]
        return {name: values[name].numpy() for name in outputs}

    return run


def _last_uses(graph: onnx.GraphProto, kept: set[str]) -> list[list[str]]:
    """For each node, the values that are not needed after it."""
    seen = set(kept) | {""}
    result: list[list[str]] = []
    for node in reversed(graph.node):
        names = dict.fromkeys((*node.input, *node.output[:1]))
        result.append([name for name in names if name not in seen])
        seen.update(names)
    return result[::-1]


def _sides(attributes: Attributes, rank: int) -> tuple[list[int], list[int]]:
    pads = list(attributes.get("pads", [0] * (2 * rank)))
    return pads[:rank], pads[rank:]


def _padded(x: Tensor, attributes: Attributes, value: float = 0.0) -> tuple[Tensor, list[int]]:
    """Pad `x` if its sides differ, which torch's operators cannot; returns it, and the padding left to the operator."""
    before, after = _sides(attributes, x.dim() - 2)
    if before == after:
        return x, before
    both = [amount for pair in zip(reversed(before), reversed(after), strict=True) for amount in pair]
    return F.pad(x, both, value=value), [0] * len(before)


def _conv(attributes: Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    x, padding = _padded(x, attributes)
    rank = x.dim() - 2
    convolution = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    return convolution(x, weight, bias, strides, padding, dilations, attributes.get("group", 1))


def _conv_transpose(attributes: Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    before, _ = _sides(attributes, x.dim() - 2)
    return F.conv_transpose2d(x, weight, bias, attributes.get("strides", [1, 1]), before)


def _max_pool(attributes: Attributes, x: Tensor) -> Tensor:
    x, padding = _padded(x, attributes, float("-inf"))
    return F.max_pool2d(x, attributes["kernel_shape"], attributes.get("strides"), padding)


def _average_pool(attributes: Attributes, x: Tensor) -> Tensor:
    """The mean without padding. If the sides are padded differently, values and counts are pooled separately."""
    kernel, strides = attributes["kernel_shape"], attributes.get("strides")
    before, after = _sides(attributes, 2)
    if before == after:
        return F.avg_pool2d(x, kernel, strides, before, count_include_pad=False)
    padded, _ = _padded(x, attributes)
    counted, _ = _padded(torch.ones_like(x[:1, :1]), attributes)
    return F.avg_pool2d(padded, kernel, strides) / F.avg_pool2d(counted, kernel, strides)


def _gemm(attributes: Attributes, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.addmm(c, a.T if attributes.get("transA") else a, b.T if attributes.get("transB") else b)


def _local_response(attributes: Attributes, x: Tensor) -> Tensor:
    return F.local_response_norm(x, attributes["size"], attributes["alpha"], attributes["beta"], attributes["bias"])


def _batch_norm(attributes: Attributes, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
    return F.batch_norm(x, mean, variance, scale, bias, eps=attributes.get("epsilon", 1e-5))


def _layer_norm(attributes: Attributes, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, scale.shape, scale, bias, attributes.get("epsilon", 1e-5))


def _lstm(attributes: Attributes, x: Tensor, w: Tensor, r: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    """ONNX orders gates as input, output, forget, cell; torch as input, forget, cell, output."""
    hidden, directions = attributes["hidden_size"], w.shape[0]

    def ordered(weight: Tensor) -> Tensor:
        i, o, f, c = weight.split(hidden)
        return torch.cat([i, f, c, o])

    weights = [
        ordered(part) for d in range(directions) for part in (w[d], r[d], bias[d][: 4 * hidden], bias[d][4 * hidden :])
    ]
    state = x.new_zeros(directions, x.shape[1], hidden)
    y, h, c = torch.lstm(x, (state, state), weights, True, 1, 0.0, False, directions == 2, False)
    return y.reshape(*x.shape[:2], directions, hidden).transpose(1, 2), h, c


def _reshape(_: Attributes, x: Tensor, shape: Tensor) -> Tensor:
    return x.reshape([x.shape[axis] if extent == 0 else extent for axis, extent in enumerate(shape.tolist())])


def _slice(_: Attributes, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor) -> Tensor:
    for start, end, axis in zip(starts.tolist(), ends.tolist(), axes.tolist(), strict=True):
        x = x.narrow(axis, start, min(end, x.shape[axis]) - start)
    return x


def _gather(attributes: Attributes, x: Tensor, index: Tensor) -> Tensor:
    axis = attributes.get("axis", 0)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, index.reshape(-1)).reshape(shape)


def _unsqueeze(attributes: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    for axis in sorted(attributes["axes"] if axes is None else axes.tolist()):
        x = x.unsqueeze(axis)
    return x


def _squeeze(_: Attributes, x: Tensor, axes: Tensor) -> Tensor:
    return x.squeeze(tuple(axes.tolist()))


def _softmax(attributes: Attributes, x: Tensor) -> Tensor:
    """Softmax over one axis; without `axis`, as in old opsets, over all axes from 1 on."""
    if "axis" in attributes or x.dim() == 2:
        return torch.softmax(x, attributes.get("axis", -1))
    return torch.softmax(x.flatten(1), 1).reshape(x.shape)


def _sum(_: Attributes, first: Tensor, *others: Tensor) -> Tensor:
    return sum(others, first)


def _plain(function: Callable[..., Tensor]) -> Operator:
    return lambda _, *values: function(*values)


def _concat(attributes: Attributes, *values: Tensor) -> Tensor:
    return torch.cat(values, attributes["axis"])


def _split(attributes: Attributes, x: Tensor, sizes: Tensor) -> Sequence[Tensor]:
    pieces: Sequence[Tensor] = x.split(sizes.tolist(), attributes["axis"])
    return pieces


OPERATORS: Mapping[str, Operator] = {
    "Add": _plain(torch.add),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": lambda _, x: x.float(),
    "Clip": _plain(torch.clamp),
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Div": _plain(torch.div),
    "Dropout": _plain(lambda x: x),
    "Erf": _plain(torch.erf),
    "Expand": _plain(lambda x, shape: x.expand(shape.tolist())),
    "Flatten": _plain(lambda x: x.flatten(1)),
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": _plain(lambda x: x.mean((2, 3), keepdim=True)),
    "Greater": _plain(torch.gt),
    "LRN": _local_response,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "MatMul": _plain(torch.matmul),
    "MaxPool": _max_pool,
    "Mul": _plain(torch.mul),
    "Pow": _plain(torch.pow),
    "Range": _plain(torch.arange),
    "ReduceMean": lambda attributes, x: x.mean(attributes["axes"], keepdim=bool(attributes.get("keepdims", 1))),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Shape": _plain(lambda x: torch.tensor(x.shape)),
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Squeeze": _squeeze,
    "Sub": _plain(torch.sub),
    "Sum": _sum,
    "Tanh": _plain(torch.tanh),
    "Transpose": lambda attributes, x: x.permute(attributes["perm"]),
    "Unsqueeze": _unsqueeze,
    "Where": _plain(torch.where),
}
