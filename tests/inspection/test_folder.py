"""What `inspect` says of a Hugging Face folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import deploykit
from deploykit.cli import app
from deploykit.inspection.folder import FolderReport
from tests.frontends.huggingface.test_texts import folder_of
from tests.frontends.torch.exports import unpacked
from tests.frontends.torch.test_importer import without_torch


def test_a_folder_with_a_family(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "bert-classes", id2label={"0": "good", "1": "bad"})
    report = deploykit.inspect(folder, {"tokens": (1, 400)})
    assert isinstance(report, FolderReport)
    assert report.supported
    assert (report.architecture, report.route) == ("BertForSequenceClassification", "own")
    assert report.reason == "there is a family for 'bert'"
    assert (report.tokenizer, report.labels, report.most_tokens) == ("WordPiece", ("good", "bad"), 40)
    assert report.session.startswith("classify(texts)")
    assert [port.name for port in report.outputs] == ["logits"]
    assert {dim.name: dim.maximum for dim in report.dims}["tokens"] == 400


@without_torch
def test_a_folder_that_needs_pytorch(tmp_path: Path) -> None:
    unpacked("ernie-states", tmp_path / "model")
    found = CliRunner().invoke(app, ["inspect", str(tmp_path / "model")])
    assert "ErnieModel, a model of type 'ernie'" in found.stdout
    report = deploykit.inspect(tmp_path / "model")
    assert isinstance(report, FolderReport)
    assert not report.supported
    assert report.reason.endswith("this Python has no torch: pip install 'deploykit[torch]'")


def test_a_folder_for_pytorch_is_described_without_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch is not loaded for it."""
    unpacked("ernie-states", tmp_path / "model")
    monkeypatch.setattr("deploykit.inspection.folder.missing_packages", tuple)
    loaded = "torch" in sys.modules
    text = CliRunner().invoke(app, ["inspect", str(tmp_path / "model")]).stdout
    assert "Route     torch: " in text
    assert "'ernie'" in text
    assert "--export" in text
    assert "Inputs" not in text
    assert ("torch" in sys.modules) == loaded


def test_the_command_line(tmp_path: Path) -> None:
    folder = str(folder_of(tmp_path / "model", "bert-answers"))
    text = CliRunner().invoke(app, ["inspect", folder]).stdout
    assert "Route     own: there is a family for 'bert'" in text
    assert "Session   answer(question, context): the part of the context that answers, of at most 40 tokens" in text
    document = json.loads(CliRunner().invoke(app, ["inspect", folder, "--json"]).stdout)
    assert (document["route"], document["supported"]) == ("own", True)
    assert [port["name"] for port in document["outputs"]] == ["start_logits", "end_logits"]


def test_a_folder_without_weights_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(deploykit.UsageError, match="has no weights"):
        deploykit.inspect(tmp_path)
