"""Models from text, with random weights that are the same each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx.parser
from numpy.typing import DTypeLike
from onnx import numpy_helper


def seeded(text: str, weights: Mapping[str, Sequence[int]], dtype: DTypeLike = np.float32) -> onnx.ModelProto:
    """The model of `text` with weights of these shapes. Float weights are normal numbers, scaled so that sums over all
    dims except the first have the magnitude of one input. Integer weights are from -99 to 98."""
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(0)
    for name, shape in weights.items():
        array = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        if np.issubdtype(dtype, np.integer):
            array = random.integers(-99, 99, shape)
        model.graph.initializer.append(numpy_helper.from_array(array.astype(dtype), name))
    return model
