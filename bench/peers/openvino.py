"""OpenVINO on the CPU: the ONNX file as it is, with its symbolic dims bounded as in our artifact.

One stream gets all threads, as with the other sides. Floats stay 32-bit: by default OpenVINO computes in 16 bits if the
CPU can, which gives other results. Inputs are read in place, and results are views that the next run overwrites, which
is OpenVINO's fastest way to pass data.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bench.peers import Bounds
from deploykit.checks.reference import Runner
from deploykit.errors import UnsupportedModelError


def settings(threads: int, precision: str = "f32") -> dict[str, Any]:
    """The settings of the CPU device. A core with two hardware threads counts twice, as with the other sides."""
    return {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_HYPER_THREADING": True,
        "INFERENCE_PRECISION_HINT": precision,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    }


def load(model: Path, threads: int, bounds: Bounds, precision: str = "f32") -> Runner:
    """Load a model, which computes in `precision`: `f32`, `bf16`, `f16`. Raises what OpenVINO raises, and
    `UnsupportedModelError` if it would not run on `threads`."""
    import openvino

    core = openvino.Core()
    graph = onnx.load(model, load_external_data=False).graph
    network = core.read_model(model)
    shapes = _bounded(openvino, graph, network, bounds)
    if shapes:
        network.reshape(shapes)
    compiled = core.compile_model(network, "CPU", settings(threads, precision))
    given = compiled.get_property("INFERENCE_NUM_THREADS")
    if given != threads:
        raise UnsupportedModelError(f"OpenVINO runs on {given} thread(s) where {threads} are asked for")
    request = compiled.create_infer_request()
    indices = {name: index for index, port in enumerate(compiled.outputs) for name in port.get_names()}
    outputs = [(value.name, indices[value.name]) for value in graph.output]

    def run(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = request.infer(dict(arrays), share_inputs=True, share_outputs=True).to_tuple()
        return {name: results[index] for name, index in outputs}

    return run


def _bounded(openvino: Any, graph: onnx.GraphProto, network: Any, bounds: Bounds) -> dict[str, Any]:
    """The bounded shapes of the inputs that have a dim in `bounds`, by name."""
    shapes = {}
    for value in graph.input:
        dims = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
        if bounds.keys() & set(dims):
            shape = network.input(value.name).partial_shape
            for axis, dim in enumerate(dims):
                if dim in bounds:
                    shape[axis] = openvino.Dimension(*bounds[dim])
            shapes[value.name] = shape
    return shapes
