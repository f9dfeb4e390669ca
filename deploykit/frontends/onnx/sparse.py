"""Sparse constants as dense ones: attributes `sparse_value` of Constant, and the sparse initializers of a graph.

Indices are linear, (number,), or one row for each element, (number, rank). (Source: ONNX, `SparseTensorProto`.)
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import onnx
from onnx import numpy_helper

from deploykit.errors import UnsupportedModelError

MOST = 1 << 30
"""Bytes of a dense tensor that a sparse one may become."""


def dense(proto: onnx.ModelProto, label: str) -> onnx.ModelProto:
    """`proto`, or a copy without sparse tensors. Raises `UnsupportedModelError` for one whose parts do not fit, or that
    would be too large."""
    if not any(graph.sparse_initializer or any(map(_is_sparse, graph.node)) for graph in _graphs(proto)):
        return proto
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    for graph in _graphs(found):
        for tensor in graph.sparse_initializer:
            graph.initializer.append(_dense(tensor, tensor.values.name, label))
        graph.ClearField("sparse_initializer")
        for node in filter(_is_sparse, graph.node):
            tensor = _dense(node.attribute[0].sparse_tensor, node.output[0], label)
            node.attribute[0].CopyFrom(onnx.helper.make_attribute("value", tensor))
    return found


def _is_sparse(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and [attribute.name for attribute in node.attribute] == ["sparse_value"]


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph of a model, and the graphs within its nodes."""
    pending = [proto.graph]
    while pending:
        graph = pending.pop()
        yield graph
        pending += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def _dense(sparse: onnx.SparseTensorProto, name: str, label: str) -> onnx.TensorProto:
    values, at = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    shape = tuple(sparse.dims)
    if min(shape, default=1) < 0 or prod(shape) * values.itemsize > MOST:
        raise UnsupportedModelError(f"{label}: the sparse tensor '{name}' of shape {shape} is too large to be stored")
    places = at if at.ndim == 1 else _linear(at, shape)
    if places is None or places.shape != values.shape or ((places < 0) | (places >= prod(shape))).any():
        raise UnsupportedModelError(
            f"{label}: the sparse tensor '{name}' of shape {shape} has {values.size} values and indices of shape "
            f"{at.shape}, which do not fit. Export the model again."
        )
    array = np.zeros(prod(shape), values.dtype)
    array[places] = values
    return numpy_helper.from_array(array.reshape(shape), name)


def _linear(at: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Indices with a row for each element as linear ones; None if they do not fit the shape."""
    if at.ndim != 2 or at.shape[1] != len(shape) or ((at < 0) | (at >= np.array(shape))).any():
        return None
    return np.asarray(at @ np.array([prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64))
