"""The standard ONNX backend interface (`onnx.backend.base`), so that the ONNX project's own suite runs unchanged.

`prepare` builds an artifact in a temporary folder and opens it; the folder goes with the prepared model. `TARGET` and
`CPU` are what to build for; with `SANITIZE` the artifact runs in an instrumented process, and `DEVICE` is what one for
the web runs on (see `deploykit.open`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

import deploykit
from deploykit.session import Session
from deploykit.targets.base import Target

TARGET: str | Target = "host"
CPU = "native"
SANITIZE = False
DEVICE: str | None = None


class PreparedModel(BackendRep):
    """A built model. `run` takes the inputs in order and gives the outputs in order."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="deploykit-")
        deploykit.build(model, target=TARGET, cpu=CPU, output=f"{self._folder.name}/model")
        self.session: Session = deploykit.open(f"{self._folder.name}/model", sanitize=SANITIZE, device=DEVICE)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:  # noqa: ARG002
        names = [port.name for port in self.session.manifest.inputs]
        given: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        feeds = {name: np.asarray(value) for name, value in zip(names, given, strict=True)}
        return tuple(self.session(**feeds).values())


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
