"""Decoders that PyTorch exported generate as ONNX Runtime does with their files.

Files are exports of tiny models of transformers: by `torch.onnx.export` (`dynamo`) or by its older form (`script`).
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.onnx.decoders.importer import import_decoder
from tests.frontends.onnx.decoders.compared import check
from tests.runtimes import Runtime

FILES = Path(__file__).parent / "files"

WINDOWS = {
    "llama_sdpa_dynamo": None,
    "gemma2_eager_dynamo": None,
    "mistral_eager_dynamo": 8,
    "llama_eager_script": None,
}
"""By file, what all layers look back."""


@pytest.mark.parametrize("name", WINDOWS)
def test_exports(name: str, runtime: Runtime) -> None:
    if runtime.name != "host":
        pytest.skip("on the host alone")
    model = onnx.load(FILES / f"{name}.onnx")
    found = import_decoder(model, {"pages": (1, 16)}, 128)
    assert found is not None
    assert found.window == WINDOWS[name]
    check(runtime, model, found, 1e-4)


def test_a_shape_of_what_was_read_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="Reshape_8' makes depends on how much was read"):
        import_decoder(onnx.load(FILES / "qwen2_sdpa_script.onnx"), None, 128)


def test_another_function_of_scores_is_refused() -> None:
    """Scores are squared in front of the softmax."""
    model = onnx.load(FILES / "mistral_eager_dynamo.onnx")
    softmax = next(node for node in model.graph.node if node.op_type == "Softmax")
    place = list(model.graph.node).index(softmax)
    model.graph.node.insert(place, helper.make_node("Mul", [softmax.input[0], softmax.input[0]], ["squared"]))
    softmax.input[0] = "squared"
    with pytest.raises(UnsupportedModelError, match="is no mean of values"):
        import_decoder(model, None, 128)
