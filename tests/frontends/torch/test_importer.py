"""Folders whose architecture has no family: what an export becomes, without PyTorch; and exports, with PyTorch."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

import deploykit
from deploykit.cli import app
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.folders.models import import_model
from deploykit.folders.texts import of_texts
from deploykit.frontends.huggingface.importer import Imported, pooled_states
from deploykit.frontends.torch.importer import import_exported, missing_packages
from tests.frontends.huggingface.test_texts import tokenizer
from tests.frontends.torch.exports import Export, unpacked

with_torch = pytest.mark.skipif(bool(missing_packages()), reason="needs PyTorch, transformers and onnxscript")
without_torch = pytest.mark.skipif(not missing_packages(), reason="this Python has PyTorch")


def change(folder: Path, file: str, **entries: Any) -> None:
    known = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    (folder / file).write_text(json.dumps(known | entries))


def session(found: Imported, place: Path) -> deploykit.Session:
    deploykit.build(found.model, output=place)
    return deploykit.open(place)


def check_padded(found: Imported, stored: Export, place: Path) -> None:
    with session(found, place) as opened:
        for inputs, expected in stored.runs():
            for name, value in opened(**inputs).items():
                np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_an_export_computes_what_eager_mode_computes(tmp_path: Path) -> None:
    stored = unpacked("convbert-tokens", tmp_path / "model")
    check_padded(stored.imported(), stored, tmp_path / "dist")


def test_an_export_takes_ragged_batches_where_that_is_proved(tmp_path: Path) -> None:
    stored = unpacked("ernie-classes", tmp_path / "model")
    tokenizer().save(str(tmp_path / "model" / "tokenizer.json"))
    found = of_texts(stored.imported(), {}, None)
    with session(found, tmp_path / "dist") as opened:
        for inputs, expected in stored.runs():
            mask = inputs.pop("attention_mask").astype(bool)
            rows = {key: [row[valid] for row, valid in zip(x, mask, strict=True)] for key, x in inputs.items()}
            np.testing.assert_allclose(opened(**rows)["logits"], expected["logits"], rtol=0, atol=1e-5)
        assert len(opened.classify("the cat sat")) == 3


def test_texts_that_padding_would_change_run_alone(tmp_path: Path) -> None:
    stored = unpacked("convbert-tokens", tmp_path / "model")
    tokenizer().save(str(tmp_path / "model" / "tokenizer.json"))
    found = of_texts(stored.imported(), {}, None)
    assert "padding changes the results" in found.model.notes[-1]
    with session(found, tmp_path / "dist") as opened:
        both = opened.tokens(["a cat", "the cat sat on the mat."])
        assert both == [opened.tokens("a cat"), opened.tokens("the cat sat on the mat.")]
        assert opened.manifest.task is not None
        assert opened.manifest.task.alone
    change(tmp_path / "model", "facts.json", padding=True)
    task = of_texts(stored.imported(), {}, None).model.task
    assert task is not None
    assert not task.alone


@pytest.mark.slow
@pytest.mark.sampled(part=8)
def test_states_are_pooled_to_a_vector_for_each_text(tmp_path: Path) -> None:
    stored = unpacked("ernie-states", tmp_path / "model")
    (tmp_path / "model" / "pool").mkdir()
    change(tmp_path / "model" / "pool", "config.json", pooling_mode="mean")
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "pool"}]
    (tmp_path / "model" / "modules.json").write_text(json.dumps(modules))
    found = stored.imported(finish=pooled_states(stored.imported().folder))
    with session(found, tmp_path / "dist") as opened:
        for inputs, expected in stored.runs():
            mask = inputs["attention_mask"][:, :, None]
            mean = (expected["last_hidden_state"] * mask).sum(1) / mask.sum(1)
            np.testing.assert_allclose(opened(**inputs)["sentence_embedding"], mean, rtol=0, atol=1e-5)


def test_dims_stay_within_what_was_compared(tmp_path: Path) -> None:
    stored = unpacked("ernie-states", tmp_path / "model")
    assert [(dim.name, dim.maximum) for dim in stored.imported().model.dims] == [("batch", None), ("seq", 24)]
    pinned = stored.imported({"batch": (2, 4), "seq": 9}).model
    assert [(dim.name, dim.minimum, dim.maximum) for dim in pinned.dims] == [("batch", 2, 4)]
    for size in (25, (1, 40)):
        with pytest.raises(UsageError, match=r"'seq' is in 1\.\.24 in this model"):
            stored.imported({"seq": size})
    with pytest.raises(UsageError, match=r"no dim 'length'; it has batch, seq"):
        stored.imported({"length": 3})


def test_batches_of_one_text_need_no_padding(tmp_path: Path) -> None:
    stored = unpacked("convbert-tokens", tmp_path / "model")
    tokenizer().save(str(tmp_path / "model" / "tokenizer.json"))
    found = of_texts(stored.imported({"batch": 1}), {"batch": 1}, None)
    with session(found, tmp_path / "dist") as opened:
        texts = ["a cat", "the cat sat on the mat."]
        assert [len(spans) for spans in opened.tokens(texts)] == [2, 7]
    with pytest.raises(UsageError, match="'tokens' is for batches of mixed lengths, but 'batch' has one size"):
        of_texts(stored.imported({"batch": 1}), {"batch": 1}, 16)


def test_texts_of_one_length_are_tensors(tmp_path: Path) -> None:
    stored = unpacked("ernie-classes", tmp_path / "model")
    tokenizer().save(str(tmp_path / "model" / "tokenizer.json"))
    dims = {"batch": 1, "seq": 8}
    model = of_texts(stored.imported(dims), dims, None).model
    assert (model.task, model.dims) == (None, ())
    assert "takes tensors only: 'seq' is 8, and texts have any number and length" in model.notes[-1]


def test_weights_without_use_are_named(tmp_path: Path) -> None:
    stored = unpacked("ernie-states", tmp_path / "model")
    change(tmp_path / "model", "facts.json", unread=["head.weight"])
    assert "no use for weights of the folder, such as head.weight" in stored.imported().model.notes[-1]


def test_code_of_a_folder_is_named(tmp_path: Path) -> None:
    stored = unpacked("ernie-states", tmp_path / "model")
    change(tmp_path / "model", "config.json", auto_map={"AutoModel": "own.Model"})
    assert "code of its own (auto_map in config.json), which is not run" in stored.imported().model.notes[-1]


def test_the_reason_why_there_is_no_export(tmp_path: Path) -> None:
    stored = unpacked("ernie-states", tmp_path / "model")
    change(tmp_path / "model", "facts.json", error="TorchScript fails: no")
    with pytest.raises(UnsupportedModelError, match=r"model cannot be exported: TorchScript fails: no"):
        stored.imported()


def test_an_adapter_is_refused(tmp_path: Path) -> None:
    stored = unpacked("ernie-states", tmp_path / "model")
    change(tmp_path / "model", "adapter_config.json", base_model_name_or_path="else/where")
    with pytest.raises(UnsupportedModelError, match=r"is an adapter of another model"):
        import_exported(stored.imported().folder, {})


@without_torch
@pytest.mark.parametrize("route", [None, "torch"])
def test_without_pytorch_the_message_names_the_command(tmp_path: Path, route: Any) -> None:
    unpacked("ernie-states", tmp_path / "model")
    with pytest.raises(UnsupportedModelError, match=r"torch.*: pip install 'deploykit\[torch\]'") as raised:
        import_model(tmp_path / "model", route=route)
    assert route or "ErnieModel: models of type 'ernie' have no importer of their own" in str(raised.value)


@with_torch
def test_a_folder_is_exported(tmp_path: Path) -> None:
    stored = unpacked("ernie-states", tmp_path / "model")
    found = import_model(tmp_path / "model")
    assert (found.route, found.reason) == ("torch", "ErnieModel: models of type 'ernie' have no importer of their own")
    shutil.copy(tmp_path / "model" / "facts.json", tmp_path)
    again = import_model(tmp_path / "model", {"seq": (2, 9)}, "torch")
    assert found.model.notes == again.model.notes == stored.imported().model.notes


@with_torch
def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    unpacked("ernie-states", tmp_path / "model")
    change(tmp_path / "model", "config.json", num_hidden_layers=2)
    with pytest.raises(UnsupportedModelError, match=r"has no weights 'encoder.layer.1.*', which ErnieModel needs"):
        import_model(tmp_path / "model")


@with_torch
@pytest.mark.parametrize(
    ("entries", "dtype", "message"),
    [
        ({"intermediate_size": 15}, "f4", r"'encoder.*' of .*model have the shape \(16.*, but config.json says \(15"),
        ({"hidden_size": "twelve"}, "f4", r"does not know it: .*hidden_size"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "f4", "its weights are quantised"),
        ({}, "i1", r"the weights '.*' of .*model are int8: save the folder with weights that are floats"),
    ],
)
def test_weights_and_configurations_that_do_not_fit(
    tmp_path: Path, entries: dict[str, Any], dtype: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked("ernie-states", tmp_path / "model")
    change(tmp_path / "model", "config.json", **entries)
    weights = tmp_path / "model" / "model.safetensors"
    save_file({name: array.astype(dtype) for name, array in load_file(weights).items()}, weights)
    (tmp_path / "left").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "left"))
    with pytest.raises(UnsupportedModelError, match=message):
        import_model(tmp_path / "model")
    assert list((tmp_path / "left").iterdir()) == []


@with_torch
def test_an_exporter_leaves_the_model_in_evaluation_mode(tmp_path: Path) -> None:
    import torch

    from deploykit.frontends.torch.exporting import by_tracing
    from deploykit.frontends.torch.flat import Flat
    from deploykit.frontends.torch.inputs import Input

    model = torch.nn.Linear(2, 2).eval()
    flat = Flat(model, ["input"])
    flat(torch.ones(3, 2))
    by_tracing(flat, [Input("input", ("batch", 2))], (torch.ones(3, 2),), tmp_path / "model.onnx")
    assert not model.training


@with_torch
def test_a_dim_of_one_size_is_exported_so(tmp_path: Path) -> None:
    unpacked("ernie-states", tmp_path / "model")
    model = import_model(tmp_path / "model", {"batch": 1, "seq": 8}).model
    assert [port.shape for port in model.inputs] == [(1, 8)] * 3
    with pytest.raises(UnsupportedModelError, match=r"'seq' is in 1\.\.24 in this model"):
        import_model(tmp_path / "model", {"seq": 25})
    with pytest.raises(UsageError, match="no dim 'height'; it has batch, seq"):
        import_model(tmp_path / "model", {"height": 25})


@pytest.mark.parametrize(("size", "message"), [(-100, "is cut off"), (40, "is damaged"), (0, "is cut off")])
def test_files_that_are_cut_off(tmp_path: Path, size: int, message: str) -> None:
    unpacked("ernie-states", tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    with pytest.raises(UsageError, match=rf"model.safetensors {message}"):
        import_model(tmp_path / "model", route="torch")


@with_torch
def test_no_code_of_the_folder_runs(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    unpacked("ernie-states", folder)
    (folder / "modeling_own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    places = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    change(folder, "config.json", model_type="own", architectures=["OwnModel"], auto_map=places)
    with pytest.raises(UnsupportedModelError, match=r"transformers .* does not know it"):
        import_model(folder)
    assert not (tmp_path / "ran").exists()


@without_torch
def test_the_command_line_takes_a_route(tmp_path: Path) -> None:
    unpacked("ernie-states", tmp_path / "model")
    build = ["build", str(tmp_path / "model"), "-o", str(tmp_path / "dist"), "--route"]
    own = CliRunner().invoke(app, [*build, "own"])
    assert isinstance(own.exception, SystemExit)
    assert own.exit_code == 3
    assert "pip install" not in own.stderr
    other = CliRunner().invoke(app, [*build, "torch"])
    assert other.exit_code == 3
    assert "the route 'torch' needs torch" in " ".join(other.stderr.split())


def test_a_route_is_for_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the option 'route' is for a Hugging Face folder"):
        deploykit.load(tmp_path / "model.onnx", route="own")
