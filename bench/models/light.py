"""The models in the onnx package: real networks whose large weights are replaced by constants of one value."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def names() -> tuple[str, ...]:
    """The names of the models, such as `alexnet`, as in the file names."""
    return tuple(path.stem.removeprefix("light_") for path in sorted(FOLDER.glob("*.onnx")))


def path_of(name: str) -> Path:
    return FOLDER / f"light_{name}.onnx"


def with_random_weights(name: str, seed: int = 0) -> onnx.ModelProto:
    """The model with seeded weights instead of its constants, scaled so that values keep their magnitude.

    Weights are not inputs, because ONNX Runtime folds and packs only weights that a caller cannot replace.
    """
    model = onnx.load(path_of(name))
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    scales = {node.input[index] for node in graph.node if node.op_type == "BatchNormalization" for index in (1, 4)}
    random = np.random.default_rng(seed)
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape = tuple(int(extent) for extent in shapes[node.input[0]])
        values = random.standard_normal(shape) / np.sqrt(max(1, math.prod(shape[1:])))
        if node.output[0] in scales:
            values = 1 + 0.1 * np.abs(values)
        graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    constant = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constant]
    del graph.input[:]
    graph.input.extend(inputs)
    opset = max(entry.version for entry in model.opset_import)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
