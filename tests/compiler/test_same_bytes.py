"""Builds of a model are identical byte for byte, although hash values and addresses differ between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

PROCESSES = 3
"""Number of processes that build. Their memory addresses differ randomly."""


def model() -> onnx.ModelProto:
    """A model of convolutions, after which three extents are expressions in dims, and a product with these extents."""
    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Conv", ["a", "w1"], ["b"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Conv", ["b", "w2"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("ConvTranspose", ["c", "w3"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Transpose", ["d"], ["e"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["d", "e"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"]),
    ]
    weights = [weight("w0", 8, 3, 3, 3), weight("w1", 8, 8, 3, 3), weight("w2", 8, 8, 3, 3), weight("w3", 8, 4, 2, 2)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4, None, None])
    graph = helper.make_graph(nodes, "convolutions", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of an artifact."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize(
    "target", ["embedded", *(pytest.param(name, marks=pytest.mark.slow) for name in ("host", "android", "webgpu"))]
)
def test_builds_in_other_processes_give_the_same_bytes(target: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model(), path)
    dims = ("--dim", "batch=1..4", "--dim", "height=16..64", "--dim", "width=16..48")
    found = []
    for seed in range(PROCESSES):
        folder = tmp_path / str(seed)
        subprocess.run(
            [sys.executable, "-m", "deploykit", "build", path, "-o", folder, "--target", target, *dims],
            env={**os.environ, "PYTHONHASHSEED": str(seed + 1)},
            capture_output=True,
            check=True,
        )
        found.append(contents(folder))
    first, *others = found
    assert len(first) > 3
    for other in others:
        assert first.keys() == other.keys()
        assert [name for name in first if first[name] != other[name]] == []
