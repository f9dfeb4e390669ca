"""Weights that are too large for the checks of the graph are checked separately."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import deploykit
from deploykit.basics.mapped import forget, mapped
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.onnx.reader import read
from deploykit.frontends.onnx.weights import LARGE, parse

COLUMNS = LARGE // 32 + 1


def model(dtype: type[np.generic] = np.float32, ir_version: int = 8, *, as_input: bool = False) -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.ones((8, COLUMNS), dtype), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, COLUMNS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", COLUMNS])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "large", [x, w] if as_input else [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


@pytest.mark.parametrize(("version", "as_input"), [(3, True), (8, True), (8, False)])
def test_large_weights_are_constants_even_if_listed_as_inputs(version: int, as_input: bool) -> None:
    read_model = read(model(ir_version=version, as_input=as_input))
    assert read_model.graph.initializers["w"].const_value is not None


@pytest.mark.parametrize("in_file", [False, True])
def test_missing_bytes_are_found(in_file: bool, tmp_path: Path) -> None:
    damaged = model()
    damaged.graph.initializer[0].raw_data = damaged.graph.initializer[0].raw_data[:-4]
    with pytest.raises(UnsupportedModelError, match="too small"):
        read(saved(damaged, tmp_path) if in_file else damaged)


@pytest.mark.parametrize("in_file", [False, True])
def test_dtypes_of_large_weights_are_checked(in_file: bool, tmp_path: Path) -> None:
    wrong = model(np.float64)
    with pytest.raises(UnsupportedModelError, match="dtypes"):
        read(saved(wrong, tmp_path) if in_file else wrong)


def saved(proto: onnx.ModelProto, folder: Path, *, external: bool = False) -> Path:
    path = folder / "large.onnx"
    if external:
        onnx.save(proto, path, save_as_external_data=True, location="large.data", size_threshold=0)
    else:
        onnx.save(proto, path)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool", "complex64"])
def test_large_weights_equal_the_content_of_the_file(dtype: str, tmp_path: Path) -> None:
    values = (np.arange(64 * COLUMNS) % 2039).reshape(64, COLUMNS).astype(dtype)
    proto = model()
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "w"))
    file = mapped(saved(proto, tmp_path))
    light, large = parse(file.data)
    assert light.ByteSize() < LARGE < values.nbytes
    array = large["w"].numpy()
    np.testing.assert_array_equal(array, values)
    forget(array)
    np.testing.assert_array_equal(array, values)
    light.graph.initializer[0].raw_data = array.tobytes()
    assert light == proto


def test_forgetting_leaves_other_memory_alone() -> None:
    array = np.ones(LARGE)
    forget(array)
    assert array.sum() == LARGE


@pytest.mark.parametrize("external", [False, True])
def test_a_build_from_a_changed_file_is_refused(external: bool, tmp_path: Path) -> None:
    path = saved(model(), tmp_path, external=external)
    loaded = deploykit.load(path, {"n": 4})
    (tmp_path / ("large.data" if external else "large.onnx")).write_bytes(b"something else")
    with pytest.raises(UsageError, match="has changed since it was loaded"):
        deploykit.build(loaded, target="embedded", output=tmp_path / "dist")


@pytest.mark.parametrize("external", [False, True])
def test_a_file_that_changes_during_the_build_leaves_no_artifact(external: bool, tmp_path: Path) -> None:
    path = saved(model(), tmp_path, external=external)
    file = tmp_path / ("large.data" if external else "large.onnx")

    def change(stage: str) -> None:
        if stage == "emit":
            file.write_bytes(file.read_bytes()[::-1])

    with pytest.raises(UsageError, match="has changed since it was loaded"):
        deploykit.build(path, target="embedded", dims={"n": 4}, output=tmp_path / "dist", on_stage=change)
    assert not (tmp_path / "dist").exists()


def test_a_build_works_after_the_file_is_deleted(tmp_path: Path) -> None:
    path = saved(model(), tmp_path)
    loaded = deploykit.load(path, {"n": 4})
    path.unlink()
    assert deploykit.build(loaded, target="embedded", output=tmp_path / "dist") is not None
