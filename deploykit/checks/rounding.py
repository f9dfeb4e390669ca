"""How far rounding moves the results of a model: the reference runs again on numbers that differ in their last bit.

Some models amplify rounding. A variance computed as the mean of squares minus the square of the mean keeps few digits
if the two are nearly equal. A number half-way between two steps of a quantised model may be rounded to either. In such
cases two correct implementations differ, and neither can judge the other.

The numbers that move to a neighbouring float, up or down at random, are the elements of float inputs and float weights,
and the scales of integer weights. Whole numbers stay, because a mask of ones or the lowest number of a dtype means
exactly that value. Constants of a few elements stay too, because they may be sizes or thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

from deploykit.basics.scratch import Scratch
from deploykit.checks import reference as references
from deploykit.checks.comparison import Difference
from deploykit.errors import UsageError
from deploykit.frontends.onnx.graphs import nested

_Graph: TypeAlias = onnx.GraphProto | onnx.FunctionProto

Compare: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[Difference]]
"""The errors of each output, from outputs and the expected ones."""

DRAWS = 3

_LARGEST = 1 << 31
"""Bytes of weights: only models up to this size are read into memory to be changed."""

_FEW = 8
"""Constants of at most this many elements stay: sizes have up to two elements for each axis of an image."""

_FLOATS = frozenset(map(np.dtype, (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)))

_SCALED = {"DequantizeLinear": (0, 1), "QLinearConv": (3, 4), "QLinearMatMul": (3, 4)}
"""The positions of an operator's inputs for the quantised weight and for its scale."""


def spreads(
    model: Path,
    reference: str,
    inputs: Mapping[str, Any],
    expected: Mapping[str, Any],
    compare: Compare,
    around: Callable[[references.Runner], references.Runner] = lambda run: run,
) -> dict[str, Difference]:
    """How far rounding moves each array of `expected`, by name: the largest errors of `DRAWS` runs on moved numbers.

    `expected` is the result of `reference` for `inputs`; `compare` gives the errors of others. Each model runs as
    `around` says. The result is empty if the model is too large, or if a run fails or gives other shapes.
    """
    found: dict[str, Difference] = {}
    try:
        for seed in range(DRAWS):
            generator = np.random.default_rng(seed)
            run = around(_moved_model(model, reference, generator))
            actual = run({name: _moved_value(value, generator) for name, value in inputs.items()})
            for difference in compare(actual, expected):
                if difference.problem:
                    return {}
                known = found.get(difference.name, difference)
                found[difference.name] = replace(
                    difference,
                    absolute=max(difference.absolute, known.absolute),
                    tolerances=max(difference.tolerances, known.tolerances),
                    mean_tolerances=max(difference.mean_tolerances, known.mean_tolerances),
                )
    except Exception:  # noqa: BLE001  # each reference raises exceptions of its own
        return {}
    return found


def _moved_model(path: Path, reference: str, generator: np.random.Generator) -> references.Runner:
    proto = onnx.load(path, load_external_data=False)
    if sum(_bytes(tensor) for _, tensor in _constants(proto.graph)) > _LARGEST:
        raise UsageError(f"{path} is too large to be changed in memory")
    external_data_helper.load_external_data_for_model(proto, str(path.parent))
    move_weights(proto, generator)
    with Scratch() as folder:
        place = Path(folder) / "model.onnx"
        onnx.save(proto, place)
        return references.load(place, reference)


def _moved_value(value: Any, generator: np.random.Generator) -> Any:
    """The value of one input (an array, a list of arrays, or None) with its floats moved."""
    if isinstance(value, list):
        return [_moved_value(item, generator) for item in value]
    return moved(value, generator) if isinstance(value, np.ndarray) else value


def move_weights(model: onnx.ModelProto, generator: np.random.Generator) -> None:
    """Move the weights and scales in all graphs and functions of a model, in place, as the module docstring says."""
    graphs = [graph for outer in (model.graph, *model.functions) for graph in (outer, *nested(outer.node))]
    constants = [constant for graph in graphs for constant in _constants(graph)]
    weights = {name for name, tensor in constants if math.prod(tensor.dims) > _FEW}
    scales = {
        node.input[_SCALED[node.op_type][1]]
        for graph in graphs
        for node in graph.node
        if node.op_type in _SCALED and node.input[_SCALED[node.op_type][0]] in weights
    }
    for name, tensor in constants:
        if name in weights | scales and helper.tensor_dtype_to_np_dtype(tensor.data_type) in _FLOATS:
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(moved(array, generator), tensor.name))


def moved(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Replace each element of a float array by one of its two neighbours, except whole and non-finite numbers."""
    if array.dtype not in _FLOATS:
        return array
    up = generator.integers(0, 2, array.shape, dtype=bool)
    stays = ~np.isfinite(array) | (np.trunc(array) == array)
    towards = np.where(up, np.copysign(np.inf, array), 0).astype(array.dtype)
    result: np.ndarray = np.where(stays, array, np.nextafter(array, towards))
    return result


def _constants(graph: _Graph) -> Iterator[tuple[str, onnx.TensorProto]]:
    """The initializers of a graph and the results of its Constants, with their names."""
    if isinstance(graph, onnx.GraphProto):
        yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], attribute.t) for attribute in node.attribute if attribute.name == "value")


def _bytes(tensor: onnx.TensorProto) -> int:
    elements: int = math.prod(tensor.dims)
    return elements * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
