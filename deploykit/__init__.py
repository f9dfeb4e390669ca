"""deploykit: a model in, a folder that an app can ship out.

model = deploykit.load("model.onnx")
deploykit.build(model, target="host", dims={"batch": (1, 64)}, output="dist")
deploykit.verify("dist", "model.onnx")
session = deploykit.open("dist")
outputs = session(x=array)

Each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deploykit.basics.installation import full_package_needed
from deploykit.errors import (
    ArtifactError,
    DataError,
    DeploykitError,
    InternalError,
    MismatchError,
    ShapeError,
    ToolchainError,
    UnsupportedModelError,
    UsageError,
)

if TYPE_CHECKING:
    from deploykit import ragged
    from deploykit.artifact.folder import Artifact
    from deploykit.building import build, load
    from deploykit.checks.benchmark import bench
    from deploykit.checks.comparison import Tolerance
    from deploykit.checks.verify import verify
    from deploykit.inspection.reports import inspect
    from deploykit.sessions.device_array import DeviceArray
    from deploykit.sessions.ragged_array import Ragged
    from deploykit.sessions.session import Session, open  # noqa: A004  called as `deploykit.open`

__all__ = [
    "Artifact",
    "ArtifactError",
    "DataError",
    "DeploykitError",
    "DeviceArray",
    "InternalError",
    "MismatchError",
    "Ragged",
    "Session",
    "ShapeError",
    "Tolerance",
    "ToolchainError",
    "UnsupportedModelError",
    "UsageError",
    "bench",
    "build",
    "inspect",
    "load",
    "open",
    "ragged",
    "verify",
]

_MODULES = {
    "Artifact": "deploykit.artifact.folder",
    "DeviceArray": "deploykit.sessions.device_array",
    "Ragged": "deploykit.sessions.ragged_array",
    "Session": "deploykit.sessions.session",
    "Tolerance": "deploykit.checks.comparison",
    "bench": "deploykit.checks.benchmark",
    "build": "deploykit.building",
    "inspect": "deploykit.inspection.reports",
    "load": "deploykit.building",
    "open": "deploykit.sessions.session",
    "verify": "deploykit.checks.verify",
}


def __getattr__(name: str) -> Any:
    if name == "ragged":
        return import_module("deploykit.ragged")
    if name not in _MODULES:
        raise AttributeError(f"module 'deploykit' has no attribute '{name}'")
    with full_package_needed():
        globals()[name] = getattr(import_module(_MODULES[name]), name)
    return globals()[name]
