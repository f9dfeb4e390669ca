"""The output layer of a language model in few bits of its own, on every runtime: tied with the table of words and not,
from floats and from groups."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import deploykit
from deploykit.compiler.graph.quantize_head import Head, quantize_head
from deploykit.compiler.graph.quantize_weights import Kind, quantize_weights
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.operators.quantized.groups import FORMATS, grouped, regrouped
from tests.runtimes import Runtime

DEPTH, WORDS, LEAST = 64, 70, 1000

CAP = np.float32(2)


def matrix(rows: int, seed: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).normal(size=(rows, DEPTH)) / np.sqrt(DEPTH), np.float32)


def weights(*, tied: bool) -> dict[str, np.ndarray]:
    """Matrices with a row for each output."""
    table = matrix(WORDS, 1)
    return {"table": table, "hidden": matrix(DEPTH, 2), "head": table if tied else matrix(WORDS, 3)}


@cache
def model(*, tied: bool) -> onnx.ModelProto:
    """The scores of words for ids, and what they are computed from. The width of `wide` is the number of words, too."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("MatMul", ["x", "hidden"], ["h"]),
        helper.make_node("MatMul", ["h", "wide"], ["w"]),
        helper.make_node("ReduceMax", ["w"], ["m"], axes=[1]),
        helper.make_node("Add", ["h", "m"], ["y"]),
        helper.make_node("MatMul", ["y", "head"], ["s"]),
        helper.make_node("Div", ["s", "cap"], ["d"]),
        helper.make_node("Tanh", ["d"], ["logits"]),
    ]
    named = weights(tied=tied) | {"wide": matrix(WORDS, 4)}
    arrays = {name: value if name == "table" else np.ascontiguousarray(value.T) for name, value in named.items()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", WORDS])],
        [numpy_helper.from_array(value, name) for name, value in (arrays | {"cap": np.array(CAP)}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def rounded(array: np.ndarray, kind: str, before: str | None) -> np.ndarray:
    """A matrix in a kind, which was in the kind `before`."""
    found = grouped(array, FORMATS[before or kind])
    assert found is not None
    again = regrouped(found, FORMATS[kind])
    assert again is not None
    np.testing.assert_allclose(again.floats(), kept(found.floats(), kind))
    return (found if before in (None, kind) else again).floats()


def kept(array: np.ndarray, kind: str) -> np.ndarray:
    found = grouped(array, FORMATS[kind])
    assert found is not None
    return found.floats()


def with_head(kind: str, before: Kind | None, *, tied: bool) -> tuple[ImportedModel, Head]:
    """The model whose weights are of the kind `before`, None for float32, with the head of a kind."""
    loaded = deploykit.load(model(tied=tied), {"n": (1, 40)})
    module = loaded.module if before is None else quantize_weights(loaded.module, before, LEAST)[0]
    module, head = quantize_head(module, kind, LEAST)
    return replace(loaded, module=module), head


@pytest.mark.sampled(part=12)
@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize(
    ("kind", "before"),
    [("q4", None), ("q8", None), ("q4_1", "q8"), ("q4", "q8")],
)
def test_scores(kind: str, before: Kind | None, tied: bool, runtime: Runtime) -> None:
    found, head = with_head(kind, before, tied=tied)
    assert head.was == {before or "float32"}
    assert (head.quantized.products, head.quantized.tables) == (1, int(tied))
    given = weights(tied=tied) | {"wide": matrix(WORDS, 4)}
    exact = given if before is None else {name: kept(array, before) for name, array in given.items()}
    exact["head"] = rounded(given["head"], kind, before)
    exact["table"] = exact["head"] if tied else exact["table"]
    with runtime.session(found) as session:
        for count in (1, 3, 14, 37):
            ids = np.random.default_rng(count).integers(0, WORDS, count)
            h = exact["table"][ids] @ exact["hidden"].T
            y = h + (h @ exact["wide"].T).max(axis=1, keepdims=True)
            expected = np.tanh(y @ exact["head"].T / CAP)
            np.testing.assert_allclose(session(ids=ids)["logits"], expected, rtol=0, atol=1e-3)


def test_a_head_of_the_kind_stays() -> None:
    loaded = deploykit.load(model(tied=False), {"n": (1, 40)})
    module, _ = quantize_weights(loaded.module, "q8", LEAST)
    same, head = quantize_head(module, "q8", LEAST)
    assert same.same_as(module)
    assert (head.was, head.quantized.products) == ({"q8"}, 0)


def test_bytes() -> None:
    """Those of a tied head count once."""
    cases: tuple[tuple[Kind | None, bool], ...] = ((None, True), ("q8", True), (None, False))
    for before, tied in cases:
        _, head = with_head("q4", before, tied=tied)
        assert head.quantized.after == WORDS * DEPTH * 9 // 16
        assert head.quantized.before == WORDS * DEPTH * (4 if before is None else 34 / 32)


def test_other_products_are_no_heads() -> None:
    """A product whose columns are no words, and one that gives no output."""
    graph = model(tied=False)
    other = onnx.ModelProto()
    other.CopyFrom(graph)
    other.graph.output[0].name = "h"
    other.graph.output[0].type.tensor_type.shape.dim[1].dim_value = DEPTH
    del other.graph.node[2:]
    loaded = deploykit.load(other)
    same, head = quantize_head(loaded.module, "q4", LEAST)
    assert same.same_as(loaded.module)
    assert not head.was


def test_numbers_without_a_form() -> None:
    graph = onnx.ModelProto()
    graph.CopyFrom(model(tied=False))
    place = [tensor.name for tensor in graph.graph.initializer].index("head")
    array = numpy_helper.to_array(graph.graph.initializer[place]).copy()
    array[3, 3] = np.nan
    graph.graph.initializer[place].CopyFrom(numpy_helper.from_array(array, "head"))
    loaded = deploykit.load(graph)
    same, head = quantize_head(loaded.module, "q4", LEAST)
    assert same.same_as(loaded.module)
    assert head.quantized.beyond == 1
