"""Inputs, outputs and dims whose names are special in JavaScript, in its objects or in its strings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import deploykit
from tests.web.conftest import in_node

NAMES = [
    *("constructor", "__proto__", "toString", "hasOwnProperty", "valueOf", "then", "default", "class", "await", "var"),
    *("data", "shape", "x", "X", "main", "self", "x-1", "x 1", 'x"1', "x'1", "x\\1", "${x}", "`", "</script>", "*/"),
    *("名前", "é", "\u2028", "1", "007", ".", "-", "=", "??/"),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [name]) for name in NAMES]
    outputs = [helper.make_tensor_value_info(f"{name}'", TensorProto.FLOAT, [name]) for name in NAMES]
    nodes = [helper.make_node("Neg", [name], [f"{name}'"]) for name in NAMES]
    graph = helper.make_graph(nodes, "names", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    folder = tmp_path_factory.mktemp("names") / "dist"
    deploykit.build(model, "webgpu", dict.fromkeys(NAMES, (1, 4)), folder)
    return folder


def test_run(package: Path) -> None:
    with deploykit.open(package) as session:
        feeds = {name: np.full(i % 4 + 1, i, np.float32) for i, name in enumerate(NAMES)}
        results = session.run(feeds)
        assert {name: result.tolist() for name, result in results.items()} == {
            f"{name}'": (-array).tolist() for name, array in feeds.items()
        }


def test_inherited_properties_are_not_inputs(package: Path) -> None:
    """Only own properties of an object are inputs."""
    script = """
      const error = await model.run({}).catch((thrown) => thrown);
      const refused = (() => { try { return model.memory({}); } catch (thrown) { return thrown; } })();
      return [error.name, error.message, refused.name, refused.message];
    """
    found = in_node(package, package.as_uri() + "/", f"{{ {script} }}")
    name, message, refused, reason = found["value"]
    assert (name, refused) == ("ShapeError", "ShapeError")
    assert message.startswith("input 'constructor' is missing")
    assert reason.startswith("dim 'constructor' is missing")


def test_types_hold_the_names(package: Path) -> None:
    text = (package / "index.d.mts").read_text()
    assert '"\\u540d\\u524d"' in text
    assert "\\3" not in text
