"""deploykit: a model in, a folder that an app can ship out.

model = deploykit.load("model.onnx")
deploykit.build(model, target="host", dims={"batch": (1, 64)}, output="dist")
session = deploykit.open("dist")
outputs = session(x=array)
"""

from deploykit.artifact import Artifact
from deploykit.building import build, load
from deploykit.errors import (
    ArtifactError,
    DeploykitError,
    MismatchError,
    ShapeError,
    ToolchainError,
    UnsupportedModelError,
    UsageError,
)
from deploykit.session import Session, open  # noqa: A004  called as `deploykit.open`

__all__ = [
    "Artifact",
    "ArtifactError",
    "DeploykitError",
    "MismatchError",
    "Session",
    "ShapeError",
    "ToolchainError",
    "UnsupportedModelError",
    "UsageError",
    "build",
    "load",
    "open",
]
