"""MNN: its own converter translates the ONNX file; its kernels compute with 32-bit floats.

MNN runs on the CPU if its library was built without the backend that is asked for; this is refused here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from deploykit.checks.reference import Runner
from deploykit.errors import UnsupportedModelError

_BACKENDS = {"opencl": 3, "vulkan": 7}
"""The numbers of backends, by device."""

_USED_BACKEND = 2
"""The code by which a session is asked for the number of its backend."""

_CONVERTER = "import sys, _tools; _tools.mnnconvert(sys.argv[1:])"
"""The command `mnnconvert` itself installs a client for reports to its makers, with pip."""

_LONGEST_SECONDS = 300


def load(model: Path, folder: Path, device: str) -> Runner:
    """Load a model, whose converted form is put into `folder`. Raises `UnsupportedModelError` if MNN cannot run it on
    the device."""
    import MNN

    graph = onnx.load(model, load_external_data=False).graph
    outputs = [(value.name, [dim.dim_value for dim in value.type.tensor_type.shape.dim]) for value in graph.output]
    _require_backend(folder, device)
    net = MNN.Interpreter(str(_converted(model, folder)))
    session = net.createSession({"backend": device.upper(), "precision": "high"})

    def tensor(shape: tuple[int, ...] | list[int], kind: Any, values: np.ndarray) -> Any:
        return MNN.Tensor(tuple(shape), kind, values, MNN.Tensor_DimensionType_Caffe)

    def run(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name, array in arrays.items():
            place = net.getSessionInput(session, name)
            given = array.astype(np.int32) if array.dtype == np.int64 else array
            place.copyFrom(tensor(array.shape, place.getDataType(), given))
        net.runSession(session)
        results = {}
        for name, shape in outputs:
            place = net.getSessionOutput(session, name)
            copy = tensor(shape, place.getDataType(), np.empty(shape, np.float32))
            place.copyToHostTensor(copy)
            results[name] = np.array(copy.getData(), np.float32).reshape(shape)
        return results

    return run


def _require_backend(folder: Path, device: str) -> None:
    """Raise `UnsupportedModelError` if a model of one operator would not run on the device."""
    import MNN
    import MNN.expr

    folder.mkdir(parents=True, exist_ok=True)
    small = folder / "small.mnn"
    MNN.expr.save([MNN.expr.exp(MNN.expr.placeholder([1, 4], MNN.expr.NCHW))], str(small))
    net = MNN.Interpreter(str(small))
    session = net.createSession({"backend": device.upper()})
    if net.getSessionInfo(session, _USED_BACKEND) != _BACKENDS[device]:
        raise UnsupportedModelError(f"this build of MNN has no backend for {device} and takes the CPU")


def _converted(model: Path, folder: Path) -> Path:
    """The file that MNN's converter makes."""
    made = folder / "model.mnn"
    if made.exists():
        return made
    options = ["-f", "ONNX", "--modelFile", str(model), "--MNNModel", str(made), "--bizCode", "bench"]
    call = [sys.executable, "-c", _CONVERTER, "mnnconvert", *options]
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnsupportedModelError(f"mnnconvert took more than {_LONGEST_SECONDS} s") from error
    if done.returncode or not made.exists():
        raise UnsupportedModelError(f"mnnconvert: {' '.join(done.stdout.splitlines()[-1:])[:200]}")
    return made
