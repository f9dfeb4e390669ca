"""Weights in 2, 4 and 8 bits with a scale per block, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.onnx import load_onnx
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers


def model_of(
    node: onnx.NodeProto,
    tensors: dict[str, np.ndarray],
    given: tuple[str, int, list[str | int]],
    rank: int,
    stored: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of one node with one input. `stored` are dtypes of tensors that NumPy does not have."""
    kinds = stored or {}
    initializers = [
        helper.make_tensor(name, kinds[name], array.shape, array.reshape(-1).tolist())
        if name in kinds
        else numpy_helper.from_array(array, name)
        for name, array in tensors.items()
    ]
    graph = helper.make_graph(
        [node],
        "blocks",
        [helper.make_tensor_value_info(*given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"y{i}" for i in range(rank)])],
        initializers,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(
    ("bits", "block", "depth", "zeros"),
    [(4, 16, 32, "none"), (4, 32, 80, "packed"), (8, 16, 40, "packed"), (4, 16, 48, "floats"), (2, 16, 32, "packed")],
)
def test_products(check: Check, bits: int, block: int, depth: int, zeros: str) -> None:
    columns, count = 6, -(-depth // block)
    generator = np.random.default_rng(bits + depth)
    tensors = {
        "w": generator.integers(0, 256, (columns, count, block * bits // 8)).astype(np.uint8),
        "s": numbers(columns, count, seed=1).astype(np.float32) / 8,
        "z": generator.integers(0, 256, (columns, -(-count * bits // 8))).astype(np.uint8),
        "b": numbers(columns, seed=2),
    }
    if zeros == "floats":
        tensors["z"] = numbers(columns, count, seed=3) + 8
    if zeros == "none":
        del tensors["z"]
    inputs = ["x", "w", "s", "" if zeros == "none" else "z", "", "b"]
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **attributes)
    model = model_of(node, tensors, ("x", TensorProto.FLOAT, ["n", "t", depth]), 3)
    runs = [{"x": numbers(n, t, depth)} for n, t in ((1, 1), (2, 3), (3, 7))]
    check(model, *runs, expected=by_onnxruntime(model, *runs), rtol=1e-3)


@pytest.mark.parametrize("kind", [0, 1])
def test_products_of_codes(check: Check, kind: int) -> None:
    columns, depth, block = 4, 32, 16
    tensors = {
        "w": np.random.default_rng(kind).integers(0, 256, columns * depth // 2).astype(np.uint8),
        "s": np.abs(numbers(columns * depth // block)) / 4,
    }
    attributes = {"K": depth, "N": columns, "block_size": block, "quant_type": kind}
    node = helper.make_node("MatMulBnb4", ["x", "w", "s"], ["y"], domain="com.microsoft", **attributes)
    model = model_of(node, tensors, ("x", TensorProto.FLOAT, ["n", depth]), 2)
    runs = [{"x": numbers(n, depth)} for n in (1, 4)]
    check(model, *runs, expected=by_onnxruntime(model, *runs), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["uint8", "uint4", "int4"])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_a_table(check: Check, dtype: str, *, zeros: bool) -> None:
    rows, depth, block = 5, 48, 16
    generator = np.random.default_rng(1)
    kind = {"uint8": TensorProto.UINT8, "uint4": TensorProto.UINT4, "int4": TensorProto.INT4}[dtype]
    low, high = {"uint8": (0, 256), "uint4": (0, 16), "int4": (-8, 8)}[dtype]
    packed = dtype == "uint8"
    tensors = {
        "w": generator.integers(low, high, (rows, depth // 2 if packed else depth)),
        "s": numbers(rows, depth // block, seed=1).astype(np.float32),
        "z": generator.integers(low, high, (rows, 2 if packed else depth // block)),
    }
    if not zeros:
        del tensors["z"]
    node = helper.make_node(
        "GatherBlockQuantized",
        ["w", "i", "s", "z"] if zeros else ["w", "i", "s"],
        ["y"],
        domain="com.microsoft",
        block_size=block,
        quantize_axis=1,
        gather_axis=0,
        bits=4,
    )
    model = model_of(node, tensors, ("i", TensorProto.INT64, ["n", "t"]), 3, {"w": kind, "z": kind})
    runs = [{"i": generator.integers(0, rows, shape)} for shape in ((1, 1), (2, 3))]
    check(model, *runs, expected=by_onnxruntime(model, *runs), rtol=1e-3)


def test_weights_that_do_not_fit_are_refused() -> None:
    attributes = {"K": 32, "N": 4, "bits": 4, "block_size": 16}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **attributes)
    tensors = {"w": np.zeros((4, 2, 7), np.uint8), "s": np.ones((4, 2), np.float32)}
    model = model_of(node, tensors, ("x", TensorProto.FLOAT, ["n", 32]), 2)
    with pytest.raises(UnsupportedModelError, match=r"weights uint8\[4, 2, 7\] .* of a matrix of 4 times 32"):
        load_onnx(model)
