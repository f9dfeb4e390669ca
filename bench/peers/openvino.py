"""OpenVINO on the CPU: the ONNX file as it is, its symbolic dims within the bounds that our artifact is built for.

One stream has all threads, as the other sides have, and floats stay floats of 32 bits: by default OpenVINO computes in
16 bits where the CPU can, which is another result. Inputs are read where they lie, and results are views that the next
run overwrites: the fastest way in and out that it has.
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


def settings(threads: int) -> dict[str, Any]:
    """What the CPU device is asked for. Cores of two hardware threads count twice, as they do for the other sides."""
    return {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_HYPER_THREADING": True,
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    }


def load(model: Path, threads: int, bounds: Bounds) -> Runner:
    """Raises `UnsupportedModelError` where it would run on other than `threads` threads, and what OpenVINO raises."""
    import openvino

    core = openvino.Core()
    graph = onnx.load(model, load_external_data=False).graph
    network = core.read_model(model)
    shapes = _bounded(openvino, graph, network, bounds)
    if shapes:
        network.reshape(shapes)
    compiled = core.compile_model(network, "CPU", settings(threads))
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
    """Shapes of the inputs that have a dim in `bounds`, by name."""
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
