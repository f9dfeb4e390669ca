"""The command line as a user calls it, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from deploykit import build
from deploykit.cli import app


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Outcome]


@pytest.fixture
def deploykit() -> Command:
    def call(*arguments: object) -> Outcome:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return call


def dense_model(operator: str = "Relu") -> onnx.ModelProto:
    """y[batch, 4] = operator(x[batch, 8] @ w + b)."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((8, 4), dtype=np.float32),
        "b": random.standard_normal(4, dtype=np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Add", ["product", "b"], ["sum"], name="sum"),
        helper.make_node(operator, ["sum"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 4))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "dense.onnx"
    onnx.save(dense_model(), path)
    return path


@pytest.fixture
def other_model(tmp_path: Path) -> Path:
    """The same interface, other results."""
    path = tmp_path / "other.onnx"
    onnx.save(dense_model("Neg"), path)
    return path


@pytest.fixture(scope="session")
def artifact(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model built for this machine with its batch in 1..16."""
    folder = tmp_path_factory.mktemp("artifact") / "dense"
    build(model, output=folder, dims={"batch": (1, 16)})
    return folder
