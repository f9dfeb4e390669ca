"""ncnn: its own converter, pnnx, translates the ONNX file; its kernels for Vulkan compute with 32-bit floats.

The dims of the file must be fixed. ncnn has no axis for the batch, so a model runs with a batch of 1.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from deploykit.checks.reference import Runner
from deploykit.errors import UnsupportedModelError

MODULES = ("ncnn", "pnnx")
_LONGEST_SECONDS = 300


def load(model: Path, folder: Path) -> Runner:
    """Load a model, whose converted form is put into `folder`. Raises `UnsupportedModelError` if ncnn cannot run it."""
    import ncnn

    if ncnn.get_gpu_count() == 0:
        raise UnsupportedModelError("ncnn finds no device for Vulkan")
    graph = onnx.load(model, load_external_data=False).graph
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.output}
    inputs = [value.name for value in graph.input]
    converted = _converted(model, folder)
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    if net.load_param(f"{converted}.param") or net.load_model(f"{converted}.bin"):
        raise UnsupportedModelError("ncnn cannot load what pnnx made")
    if len(net.input_names()) != len(inputs) or len(net.output_names()) != len(shapes):
        raise UnsupportedModelError("pnnx changed the inputs or outputs")

    def run(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        extractor = net.create_extractor()
        for name, place in zip(inputs, net.input_names(), strict=True):
            array = arrays[name].astype(np.int32) if arrays[name].dtype == np.int64 else arrays[name]
            extractor.input(place, ncnn.Mat(np.ascontiguousarray(array[0])).clone())
        results = {}
        for (name, shape), place in zip(shapes.items(), net.output_names(), strict=True):
            failed, found = extractor.extract(place)
            if failed:
                raise UnsupportedModelError(f"ncnn cannot compute {name}")
            results[name] = np.array(found).reshape(shape)
        return results

    return run


def _converted(model: Path, folder: Path) -> Path:
    """The path, without its end, of the files that pnnx makes."""
    spec = importlib.util.find_spec("pnnx")
    places = [] if spec is None else spec.submodule_search_locations or []
    tool = next((path for place in places if (path := Path(place) / "pnnx").exists()), None)
    if tool is None:
        raise UnsupportedModelError("the package pnnx has no converter")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(model, folder / "model.onnx")
    call = [str(tool), "model.onnx", "fp16=0"]
    try:
        made = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnsupportedModelError(f"pnnx took more than {_LONGEST_SECONDS} s") from error
    if made.returncode or not (folder / "model.ncnn.param").exists():
        raise UnsupportedModelError(f"pnnx: {' '.join(made.stderr.splitlines()[-1:])[:200]}")
    return folder / "model.ncnn"
