"""The standard ONNX backend interface (`onnx.backend.base`), so that the ONNX project's own suite runs unchanged.

A prepared model builds its artifact in a temporary folder, which is removed together with the model. `TARGET`, `CPU`
and `DEVICES` say what to build for; `DEVICE`, `SANITIZE` and `THREADS` how the artifact runs (see `deploykit.open`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

import deploykit
from deploykit.basics.scratch import Scratch
from deploykit.frontends.onnx.names import dim_name
from deploykit.sessions.session import Session
from deploykit.targets.base import Target

TARGET: str | Target = "host"
CPU = "native"
DEVICES: tuple[str, ...] = ()
DEVICE: str | None = None
SANITIZE = False
THREADS = 1


class PreparedModel(BackendRep):
    """A model that is built when it gets its first inputs, because the build fixes, for instance, lengths of sequences.
    `run` takes the inputs in order and gives the outputs in order."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._folder = Scratch()
        self._model = model
        self._session: Session | None = None

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:  # noqa: ARG002
        given: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        weights = {tensor.name for tensor in self._model.graph.initializer}
        declared = [value for value in self._model.graph.input if value.name not in weights]
        if self._session is None:
            self._session = self._built(declared, given)
        values: list[Any] = [
            value if isinstance(value, list) or value is None else np.asarray(value) for value in given
        ]
        return tuple(self._session.run(dict(zip([v.name for v in declared], values, strict=True))).values())

    def _built(self, declared: Sequence[onnx.ValueInfoProto], given: Sequence[Any]) -> Session:
        dims: dict[str, Any] = {}
        for value, data in zip(declared, given, strict=True):
            _describe(value.name, value.type, data, dims)
        if all(value.type.HasField("tensor_type") for value in declared):
            dims = {name: bounds for name, bounds in dims.items() if bounds[0] == 0}
        output = self._folder.path / "model"
        deploykit.build(self._model, target=TARGET, cpu=CPU, devices=DEVICES, dims=dims, output=output)
        return open_artifact(str(output))


def open_artifact(folder: str) -> Session:
    """Open an artifact as prepared models are."""
    return deploykit.open(folder, device=DEVICE, sanitize=SANITIZE, threads=THREADS)


def _describe(name: str, type_: onnx.TypeProto, data: Any, dims: dict[str, Any], item: str = "") -> None:
    """Add to `dims` the lengths and the bounds of sizes of one input's data; give its type a rank if it has none."""
    if type_.HasField("optional_type"):
        dims[f"{name}_present"] = int(data is not None)
        if data is not None:
            _describe(name, type_.optional_type.elem_type, data, dims, item)
    elif type_.HasField("sequence_type"):
        dims[f"{name}_length"] = len(data)
        for i, part in enumerate(data):
            _describe(f"{name}_{i}", type_.sequence_type.elem_type, part, dims, f"{item}_{i}")
    else:
        tensor, array = type_.tensor_type, np.asarray(data)
        if not tensor.HasField("shape"):
            tensor.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in range(array.ndim))
        for axis, (dim, size) in enumerate(zip(tensor.shape.dim, array.shape, strict=False)):
            if not dim.HasField("dim_value"):
                dims[dim_name(name, axis, dim.dim_param, item)] = (min(1, size), max(1, size))
        if tensor.elem_type == onnx.TensorProto.STRING:
            dims[f"{name}_utf8"] = (0, max(1, sum(len(str(s).encode()) for s in array.flat)))


class DeploykitBackend(Backend):
    """Compiles for `TARGET`; the only device is the CPU."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:  # noqa: ARG003
        if not cls.supports_device(device):
            raise deploykit.UsageError(f"device '{device}' is not supported; there is CPU")
        return PreparedModel(model)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return bool(Device(device).type == DeviceType.CPU)


prepare = DeploykitBackend.prepare
run_model = DeploykitBackend.run_model
supports_device = DeploykitBackend.supports_device
