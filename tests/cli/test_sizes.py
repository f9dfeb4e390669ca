"""Sizes that a build prints: measured if that is quick, else estimated and marked as estimates."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploykit.artifact.manifest import MEASURED_BELOW, describe_files

CONTENTS = {
    "random": lambda count: np.random.default_rng(0).standard_normal(count).astype(np.float32).tobytes(),
    "zeros": lambda count: bytes(4 * count),
    "halves": lambda count: bytes(2 * count) + np.random.default_rng(0).bytes(2 * count),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_an_estimate_is_near_the_size(name: str, tmp_path: Path) -> None:
    data = CONTENTS[name](MEASURED_BELOW // 4 + 12_345)
    (tmp_path / "large").write_bytes(data)
    (entry,) = describe_files(tmp_path, ["large"])
    assert entry.bytes == len(data)
    assert entry.gzip_bytes == pytest.approx(len(gzip.compress(data)), rel=0.02)


def test_a_small_file_is_measured(tmp_path: Path) -> None:
    data = np.arange(100_000).tobytes()
    (tmp_path / "small").write_bytes(data)
    (entry,) = describe_files(tmp_path, ["small"])
    assert entry.gzip_bytes == len(gzip.compress(data, compresslevel=9, mtime=0))


def test_an_estimate_is_marked(deploykit, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((1024, MEASURED_BELOW // 4096 + 1)).astype(np.float32)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in zip("xy", weights.shape, strict=True)
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "large", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    built = deploykit("build", tmp_path / "m.onnx", "-o", tmp_path / "dist")
    assert built.code == 0, built.err
    rows = {line.split()[0]: line for line in built.out.splitlines() if line.split()}
    assert "~" in rows["weights.bin"]
    assert "~" in rows["total"]
    assert "~" not in rows["model.c"]
