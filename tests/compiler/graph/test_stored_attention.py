"""Attention with grouped heads and with narrower floats becomes one kernel without a matrix of scores."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tvm import tirx

import deploykit
from deploykit.compiler.schedules import DEVICES
from deploykit.pipeline import graph, kernels
from tests.frontends.onnx.harness import numbers

HEADS, SHARED, SIZE = 6, 3, 20
"""Number of query heads, query heads per key head, and elements per head."""

DTYPES = {
    TensorProto.FLOAT: (np.dtype("float32"), 2e-5),
    TensorProto.FLOAT16: (np.dtype("float16"), 4e-3),
    TensorProto.BFLOAT16: (np.dtype(ml_dtypes.bfloat16), 2e-2),
}
"""Stored dtypes, and the error that their rounding allows."""

FORMS = {"plain": ("", 0), "causal": ("", 1), "open": ("n", 0), "added": ("m", 1)}
"""The mask of the operator (`m`: added, `n`: boolean), and whether it is causal."""


def operator_model(dtype: int) -> onnx.ModelProto:
    """A model with one output for each form."""
    width = HEADS * SIZE
    shapes = {"q": ["b", "s", width], "k": ["b", "t", width // SHARED], "v": ["b", "t", width // SHARED]}
    inputs = [helper.make_tensor_value_info(name, dtype, shape) for name, shape in shapes.items()]
    inputs += [helper.make_tensor_value_info("m", dtype, ["s", "t"])]
    inputs += [helper.make_tensor_value_info("n", TensorProto.BOOL, ["s", "t"])]
    attributes = {"q_num_heads": HEADS, "kv_num_heads": HEADS // SHARED}
    nodes = [
        helper.make_node("Attention", ["q", "k", "v", mask], [form], is_causal=causal, **attributes)
        for form, (mask, causal) in FORMS.items()
    ]
    outputs = [helper.make_tensor_value_info(form, dtype, ["b", "s", width]) for form in FORMS]
    opset = [helper.make_opsetid("", 23)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=opset, ir_version=11)


def feeds_of(dtype: np.dtype, batch: int, rows: int, keys: int) -> dict[str, np.ndarray]:
    width = HEADS * SIZE
    shapes = {"q": (batch, rows, width), "k": (batch, keys, width // SHARED), "v": (batch, keys, width // SHARED)}
    feeds = {name: (numbers(*shape, seed=i) / 4).astype(dtype) for i, (name, shape) in enumerate(shapes.items())}
    mask = numbers(rows, keys, seed=4)
    is_open = mask > 0
    is_open[:, 0] = True
    return {**feeds, "m": mask.astype(dtype), "n": is_open}


def expected(form: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The result in double precision."""
    mask, causal = FORMS[form]
    q, k, v = (feeds[x].astype("float64").reshape(*feeds[x].shape[:2], -1, SIZE).transpose(0, 2, 1, 3) for x in "qkv")
    scores = q @ np.repeat(k, SHARED, 1).transpose(0, 1, 3, 2) * SIZE**-0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask == "n":
        scores = np.where(feeds["n"], scores, -np.inf)
    elif mask:
        scores = scores + feeds["m"].astype("float64")
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = powers / powers.sum(-1, keepdims=True) @ np.repeat(v, SHARED, 1)
    result: np.ndarray = mixed.transpose(0, 2, 1, 3).reshape(feeds["q"].shape)
    return result


def kernel_names(model: onnx.ModelProto) -> set[str]:
    device = DEVICES["x86-64-v3"]
    module = kernels(graph(deploykit.load(model), device), device).module
    found = (name.name_hint for name, func in module.functions.items() if isinstance(func, tirx.PrimFunc))
    return {name.rstrip("0123456789") for name in found}


@pytest.mark.slow
@pytest.mark.parametrize("stored", DTYPES)
def test_the_operator(stored: int, tmp_path: Path) -> None:
    model = operator_model(stored)
    dtype, error = DTYPES[stored]
    assert "attention" in kernel_names(model)
    artifact = deploykit.build(model, output=tmp_path / "d", dims={"b": (1, 2)})
    assert artifact is not None
    assert not {"s*t", "t*s"} & set(artifact.manifest.peak_memory.formula.split())
    assert "s*t" not in artifact.manifest.peak_memory.formula.replace("t*s", "s*t")
    with deploykit.open(tmp_path / "d") as session:
        for shape in ((1, 1, 1), (2, 5, 9), (1, 40, 70), (1, 1, 130)):
            feeds = feeds_of(dtype, *shape)
            for form, got in session.run(feeds).items():
                wanted = expected(form, feeds)
                np.testing.assert_allclose(
                    got.astype("float64"), wanted, rtol=error, atol=error, err_msg=f"{form} {shape}"
                )


def test_keys_of_before(tmp_path: Path) -> None:
    """With past keys, a row of scores is as long as past and new keys together."""
    dtype, error = DTYPES[TensorProto.FLOAT16]
    given = operator_model(TensorProto.FLOAT16).graph
    groups = HEADS // SHARED
    past = [("old_k", ["b", groups, "p", SIZE]), ("old_v", ["b", groups, "p", SIZE])]
    attributes = {"q_num_heads": HEADS, "kv_num_heads": groups}
    node = helper.make_node("Attention", ["q", "k", "v", "", "old_k", "old_v"], ["y", "new_k", "new_v"], **attributes)
    results = [
        ("y", ["b", "s", HEADS * SIZE]),
        ("new_k", ["b", groups, "u", SIZE]),
        ("new_v", ["b", groups, "u", SIZE]),
    ]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in past + results}
    inputs = [*given.input[:3], *(values[name] for name, _ in past)]
    body = helper.make_graph([node], "g", inputs, [values[name] for name, _ in results])
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    assert "attention" in kernel_names(model)
    deploykit.build(model, output=tmp_path / "d", dims={"b": (1, 2)})
    with deploykit.open(tmp_path / "d") as session:
        for batch, rows, before in ((1, 1, 1), (2, 3, 9)):
            feeds = feeds_of(dtype, batch, rows, before + rows)
            split = {
                name: feeds[name].reshape(batch, before + rows, groups, SIZE).transpose(0, 2, 1, 3) for name in "kv"
            }
            new = {name: feeds[name][:, before:] for name in "kv"}
            old = {f"old_{name}": np.ascontiguousarray(split[name][:, :, :before]) for name in "kv"}
            found = session.run({"q": feeds["q"], **new, **old})
            np.testing.assert_allclose(found["y"], expected("plain", feeds), rtol=error, atol=error)
            for name in "kv":
                np.testing.assert_array_equal(found[f"new_{name}"], split[name])
