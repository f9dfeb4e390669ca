"""`--head`: output layers of folders, GGUF files and ONNX files in few bits of their own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from gguf import GGMLQuantizationType as Format
from safetensors.numpy import load_file, save_file

import deploykit
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.operators.quantized.groups import FORMATS, grouped
from deploykit.errors import UsageError
from deploykit.quantization import Quantization
from tests.bench.commands import ran
from tests.frontends.huggingface.seeds import GOLDENS, write_folder
from tests.frontends.huggingface.test_texts import folder_of
from tests.frontends.onnx.decoders.grouped_graphs import GroupedGraph
from tests.language.carrying import write_tokenizer
from tests.language.models import write_language_model
from tests.language.steps import Steps
from tests.runtimes import Runtime

LEAST = 64

HEAD, TABLE = "lm_head.weight", "model.embed_tokens.weight"

EVERYWHERE = ("gguf-Q8_0-tied", "onnx-4-tied")
"""Files whose heads run on all runtimes."""

DIMS = {"pages": (1, 4), "context": (1, 40)}


def write_decoder(folder: Path, *, tied: bool, words: int = 50) -> Path:
    """A folder with a Llama of so many words, for texts of up to 256 tokens."""
    facts = json.loads((GOLDENS / "llama.json").read_text())
    config = facts["config"] | {"vocab_size": words, "tie_word_embeddings": tied, "max_position_embeddings": 256}
    shapes = {
        name: shape if name not in (HEAD, TABLE) else [words, shape[1]] for name, shape in facts["shapes"].items()
    }
    if tied:
        del shapes[HEAD]
    write_folder(folder, config, shapes)
    return folder


def round_head(folder: Path, kind: str, *, tied: bool) -> Path:
    """The output layer in a folder becomes one that has the numbers of a kind."""
    weights = load_file(folder / "model.safetensors")
    name = TABLE if tied else HEAD
    found = grouped(weights[name], FORMATS[kind])
    assert found is not None
    save_file(weights | {name: found.floats()}, folder / "model.safetensors")
    return folder


def scores(runtime: Runtime, model: ImportedModel) -> np.ndarray:
    """The scores after each token of a text, which is read in three parts beside another one."""
    text = np.random.default_rng(1).integers(0, 50, 21).tolist()
    with runtime.session(model) as session:
        session.reset({"pages": 4})
        run = Steps(session.run, 4, blocks=2)
        number, other = run.begin(), run.begin()
        return np.concatenate([run((number, text[:3]), (other, text[:2]))[0], run((number, text[3:]))[0]])


def headed(model: ImportedModel, head: str, kind: str | None = None) -> tuple[ImportedModel, list[str]]:
    """The model with its head, and the notes on that and on other weights."""
    found = Quantization(kind, head, runs_here=True, least=LEAST).quantized(model)
    return found, list(found.notes[len(model.notes) :])


@pytest.mark.sampled(part=12)
@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("head", ["q4", "q4_1", "q8"])
def test_folders(tmp_path: Path, head: str, tied: bool, runtime: Runtime) -> None:
    """The head alone has other numbers; with `--quantize`, other weights have theirs."""
    if runtime.name != "host" and (head, tied) != ("q4", True):
        pytest.skip("on the host alone")
    place = write_decoder(tmp_path / "model", tied=tied)
    loaded = deploykit.load(place, DIMS)
    found, (note,) = headed(loaded, head)
    assert note.startswith(
        f"the output layer{', which is the table of words, too,' if tied else ''} is {head} instead of"
    )
    both, notes = headed(loaded, head, "q8")
    assert len(notes) == 2
    exact = deploykit.load(round_head(place, head, tied=tied), DIMS)
    expected = scores(runtime, exact)
    np.testing.assert_allclose(scores(runtime, found), expected, rtol=0, atol=1e-3 * np.abs(expected).max())
    near = scores(runtime, both)
    assert 0 < np.abs(near - expected).max() < 0.05 * np.abs(expected).max()


@dataclass(frozen=True)
class File:
    """A file whose weights keep their bits."""

    path: Path

    def load(self, *, keep_bits: bool) -> ImportedModel:
        return deploykit.load(self.path, DIMS, keep_bits=keep_bits)


def file_of(name: str, tmp_path: Path) -> File:
    kind, form, *tied = name.split("-")
    if kind == "gguf":
        model = "gemma2" if tied else "llama"
        return File(write_language_model(tmp_path / "model.gguf", Format[form], name=model))
    onnx.save(GroupedGraph(bits=int(form), tied=bool(tied)).model(), tmp_path / "model.onnx")
    return File(tmp_path / "model.onnx")


@pytest.mark.sampled(part=16)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head", "was"),
    [
        ("gguf-Q8_0", "q4", "q8"),
        ("gguf-Q8_0-tied", "q4", "q8"),
        ("gguf-Q4_1-tied", "q8", "q4_1"),
        ("gguf-F32", "q4_1", "float32"),
        ("onnx-8", "q4", "q8"),
        ("onnx-4-tied", "q8", "q4"),
    ],
)
def test_files(tmp_path: Path, name: str, head: str, was: str, runtime: Runtime) -> None:
    """From the numbers that the file has, whether they are in groups or float32."""
    if runtime.name != "host" and name not in EVERYWHERE:
        pytest.skip("on the host alone")
    file = file_of(name, tmp_path)
    found, (note,) = headed(file.load(keep_bits=True), head)
    assert f"is {head} instead of {was}: " in note
    assert ("which is the table of words" in note) == name.endswith("tied")
    exact, (note,) = headed(file.load(keep_bits=False), head)
    assert f"is {head} instead of float32: " in note
    expected = scores(runtime, exact)
    np.testing.assert_allclose(scores(runtime, found), expected, rtol=0, atol=2e-3 * np.abs(expected).max())


def test_whole_texts(tmp_path: Path) -> None:
    """Of a model that does not generate."""
    place = write_decoder(tmp_path / "model", tied=True)
    found, _ = headed(deploykit.load(place, generate=False), "q4")
    deploykit.build(found, output=tmp_path / "found")
    deploykit.build(round_head(place, "q4", tied=True), output=tmp_path / "exact", generate=False)
    ids = [np.arange(7), np.arange(20, 23)]
    with deploykit.open(tmp_path / "found") as one, deploykit.open(tmp_path / "exact") as other:
        for a, b in zip(one(input_ids=ids)["logits"], other(input_ids=ids)["logits"], strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-3 * np.abs(b).max())


@pytest.mark.slow
def test_the_command_line(tmp_path: Path) -> None:
    place = write_decoder(tmp_path / "model", tied=False, words=520)
    write_tokenizer(place)
    done = ran("deploykit", "build", place, "--head", "q4", "-o", tmp_path / "dist", "--dim", "pages=1..4", "--json")
    assert done.returncode == 0, done.stderr
    *_, note, change = json.loads(done.stdout)["manifest"]["notes"]
    assert note == "the output layer is q4 instead of float32: 9,360 instead of 66,560 bytes"
    assert re.search(r"places of 16 texts: .*% are as before; perplexity .* instead of ", change)
    assert note in ran("deploykit", "inspect", tmp_path / "dist").stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "q3"}, "weights cannot be 'q3'; there are int8, fp16, q4"),
        ({"head": "int8"}, "an output layer cannot be 'int8'; there are q4, q4_1, q8"),
        ({"head": "q4"}, "--head is for the output layer of a language model, and there is none"),
        ({"head": "q4", "check": True}, "a quantised model cannot be checked"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    folder = folder_of(tmp_path / "model", "bert-classes")
    with pytest.raises(UsageError, match=message):
        deploykit.build(folder, output=tmp_path / "dist", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "dist").exists()


def test_rows_that_are_no_groups(tmp_path: Path) -> None:
    model = GroupedGraph().model()
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    array = onnx.numpy_helper.to_array(weights["head"]).copy()
    array[0, 0] = np.inf
    weights["head"].CopyFrom(onnx.numpy_helper.from_array(array, "head"))
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UsageError, match="the output layer cannot be q4, for rows that are no whole groups of 32"):
        headed(deploykit.load(tmp_path / "model.onnx", DIMS), "q4")
