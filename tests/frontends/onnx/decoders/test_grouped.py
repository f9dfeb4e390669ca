"""Decoders in the form of ONNX Runtime GenAI generate as ONNX Runtime does with their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper

import deploykit
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.onnx.decoders.importer import import_decoder
from tests.frontends.onnx.decoders.compared import check
from tests.frontends.onnx.decoders.grouped_graphs import GroupedGraph
from tests.runtimes import Runtime

CASES: dict[str, Callable[[], GroupedGraph]] = {
    "packed": GroupedGraph,
    "apart": lambda: GroupedGraph(packed=False),
    "norms": lambda: GroupedGraph(packed=False, norms=True),
    "plain": lambda: GroupedGraph(rotary=False),
    "interleaved": lambda: GroupedGraph({"rotary_interleaved": 1}),
    "capped": lambda: GroupedGraph({"softcap": 3.0, "scale": 0.4}),
    "window": lambda: GroupedGraph({"local_window_size": 8}),
    "four": lambda: GroupedGraph(bits=4),
    "four_with_zeros": lambda: GroupedGraph(bits=4, zeros=True),
    "tied": lambda: GroupedGraph(bits=4, tied=True),
    "eight": lambda: GroupedGraph(bits=8),
    "eight_with_zeros": lambda: GroupedGraph(bits=8, zeros=True),
}

EVERYWHERE = ("packed", "four_with_zeros")

KINDS = {"four": "11 q4,", "four_with_zeros": "q4_1", "tied": "11 q4,", "eight": "q8"}
"""What notes say of weights that keep their bits."""


@pytest.mark.parametrize("name", CASES)
def test_forms(name: str, runtime: Runtime) -> None:
    if runtime.name != "host" and name not in EVERYWHERE:
        pytest.skip("on the host alone")
    graph = CASES[name]()
    model = graph.model()
    found = import_decoder(model, {"pages": (1, 16)}, 128)
    assert found is not None
    assert found.window == (8 if name == "window" else None)
    check(runtime, model, found, 1e-3 if graph.bits else 1e-4)
    notes = " ".join(found.model.notes)
    assert (KINDS[name] in notes) if name in KINDS else "keep their bits" not in notes


def test_bits_may_be_floats(runtime: Runtime) -> None:
    if runtime.name != "host":
        pytest.skip("on the host alone")
    model = GroupedGraph(bits=4, zeros=True).model()
    found = import_decoder(model, {"pages": (1, 16)}, 128, keep_bits=False)
    assert found is not None
    assert "stored as float32" in " ".join(found.model.notes)
    check(runtime, model, found, 1e-4)


def with_sink(model: onnx.ModelProto) -> None:
    node = next(node for node in model.graph.node if node.name == "attention_1")
    node.attribute.append(helper.make_attribute("smooth_softmax", 1))


def with_half_the_mask(model: onnx.ModelProto) -> None:
    """Keys before the last one count, and those from the first on do not."""
    cast = next(node for node in model.graph.node if node.op_type == "Cast")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["two"], value_ints=[2]))
    place = list(model.graph.node).index(cast)
    model.graph.node.insert(place, helper.make_node("Div", [cast.input[0], "two"], ["half"]))
    cast.input[0] = "half"


def with_mean_of_tokens(model: onnx.ModelProto) -> None:
    head = model.graph.node[-1]
    model.graph.node.insert(len(model.graph.node) - 1, helper.make_node("Constant", [], ["axes"], value_ints=[1]))
    mean = helper.make_node("ReduceMean", [head.input[0], "axes"], ["mean"], "mean_of_all", keepdims=1)
    model.graph.node.insert(len(model.graph.node) - 1, mean)
    add = helper.make_node("Add", [head.input[0], "mean"], ["moved"])
    model.graph.node.insert(len(model.graph.node) - 1, add)
    head.input[0] = "moved"


def with_length_of_step(model: onnx.ModelProto) -> None:
    """Scores grow with the number of tokens of a step."""
    head = model.graph.node[-1]
    nodes = [
        helper.make_node("Size", ["input_ids"], ["count"]),
        helper.make_node("Cast", ["count"], ["factor"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [head.input[0], "factor"], ["grown"]),
    ]
    for node in nodes:
        model.graph.node.insert(len(model.graph.node) - 1, node)
    head.input[0] = "grown"


def with_other_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("pixels", onnx.TensorProto.FLOAT, [1]))


REFUSED: dict[str, tuple[Callable[[onnx.ModelProto], None], str]] = {
    "sink": (with_sink, "attention_1.*smooth_softmax"),
    "mask": (with_half_the_mask, "Cast_2' is"),
    "mean": (with_mean_of_tokens, "it mixes tokens; at 'mean_of_all'"),
    "length": (with_length_of_step, "'factor' depends on how many tokens are read at once"),
    "input": (with_other_input, "it takes 'pixels'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_recognised_is_refused_by_name(name: str) -> None:
    change, message = REFUSED[name]
    model = GroupedGraph().model()
    change(model)
    with pytest.raises(UnsupportedModelError, match=message):
        import_decoder(model, None, 128)


def test_other_models_are_none() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 21]> g (float[n] x) => (float[n] y) { y = Abs(x) }'
    )
    assert import_decoder(model) is None


def test_a_refused_decoder_is_built_as_its_file_says(tmp_path: Path) -> None:
    model = GroupedGraph().model()
    with_mean_of_tokens(model)
    onnx.save(model, tmp_path / "model.onnx")
    loaded = deploykit.load(tmp_path / "model.onnx")
    assert loaded.task is None
    assert any("takes and gives back what it remembers" in note and "mean_of_all" in note for note in loaded.notes)
    with pytest.raises(UsageError, match="no dim named context"):
        deploykit.load(tmp_path / "model.onnx", dims={"context": (1, 64)})


def test_a_dim_of_the_file_asks_for_the_file_as_it_is(tmp_path: Path) -> None:
    onnx.save(GroupedGraph().model(), tmp_path / "model.onnx")
    loaded = deploykit.load(tmp_path / "model.onnx", dims={"batch": (1, 2)})
    assert loaded.only.name == "main"
    assert any("'batch' is a dim of the file; without it, the model generates" in note for note in loaded.notes)


def test_bounds(tmp_path: Path) -> None:
    onnx.save(GroupedGraph().model(), tmp_path / "model.onnx")
    with pytest.raises(UsageError, match=r"has no dim 'time'.*--no-generate"):
        deploykit.load(tmp_path / "model.onnx", dims={"time": 1})
    with pytest.raises(UsageError, match="'tokens' is a range"):
        deploykit.load(tmp_path / "model.onnx", dims={"tokens": 4})
    assert deploykit.load(tmp_path / "model.onnx", generate=False).only.name == "main"
    model = deploykit.load(tmp_path / "model.onnx", dims={"context": (1, 64)})
    assert {dim.name: dim.maximum for dim in model.dims}["blocks"] == 2
