"""Folders of exporters become models that generate, with the tokenizer that lies there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import deploykit
from deploykit.errors import UsageError
from deploykit.frontends.gguf.importer import read_model
from deploykit.inspection.model import ModelReport
from tests.frontends.onnx.decoders.grouped_graphs import LONGEST, GroupedGraph
from tests.language.models import END, TEMPLATE, write_language_model


def write_texts(folder: Path) -> None:
    """A tokenizer and a template."""
    documents = read_model(write_language_model(folder.parent / "words.gguf")).documents
    assert documents is not None
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", **documents["tokenizer.json"]}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def write_genai(folder: Path) -> Path:
    folder.mkdir()
    write_texts(folder)
    onnx.save(GroupedGraph(bits=4).model(), folder / "decoder.onnx")
    model = {"decoder": {"filename": "decoder.onnx"}, "eos_token_id": [END], "context_length": LONGEST}
    (folder / "genai_config.json").write_text(json.dumps({"model": model}))
    return folder


def write_optimum(folder: Path) -> Path:
    (folder / "onnx").mkdir(parents=True)
    write_texts(folder)
    onnx.save(GroupedGraph().model(), folder / "onnx" / "model.onnx")
    config = {"model_type": "llama", "eos_token_id": END, "max_position_embeddings": LONGEST}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("write", [write_genai, write_optimum])
def test_a_folder_talks(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    folder = write(tmp_path / "model")
    deploykit.build(folder, output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        answer = session.generate([{"role": "user", "content": "abc"}], max_tokens=8, ignore_end=True)
        assert len([token for piece in answer for token in piece.tokens]) == 8
        assert session.language.task.context == LONGEST
        assert session.language.task.stops == (END,)
    assert isinstance(deploykit.inspect(folder), ModelReport)


def test_the_file_finds_what_lies_beside_it(tmp_path: Path) -> None:
    model = deploykit.load(write_optimum(tmp_path / "model") / "onnx" / "model.onnx", dims={"context": (1, 64)})
    assert model.task is not None
    with pytest.raises(UsageError, match=f"at most {LONGEST}"):
        deploykit.load(tmp_path / "model", dims={"context": (1, LONGEST + 1)})


def test_without_a_tokenizer_it_takes_tokens(tmp_path: Path) -> None:
    onnx.save(GroupedGraph().model(), tmp_path / "model.onnx")
    model = deploykit.load(tmp_path / "model.onnx", dims={"context": (1, 64)})
    assert model.task is None
    assert model.only.name == "step"
    assert any("tokenizer.json" in note for note in model.notes)


def test_damaged_configurations(tmp_path: Path) -> None:
    folder = write_genai(tmp_path / "model")
    (folder / "genai_config.json").write_text('{"model": {"decoder": {}}}')
    with pytest.raises(UsageError, match="names no file of a decoder"):
        deploykit.load(folder)
    (folder / "genai_config.json").write_text("[]")
    with pytest.raises(UsageError, match="has no 'model'"):
        deploykit.load(folder)
