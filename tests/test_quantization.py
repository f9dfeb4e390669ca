"""`--quantize int8`: what it says of the model and of the change of its answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.compiler.graph import quantize_weights
from deploykit.compiler.model import ImportedModel
from deploykit.errors import UsageError
from deploykit.quantization import KINDS, QUESTIONS, TEXTS, Kind, Quantization
from tests.bench.commands import ran
from tests.frontends.huggingface.test_entries import config_of
from tests.frontends.huggingface.test_picture_answers import folder_of as folder_of_pictures
from tests.frontends.huggingface.test_sentences import folder_of as folder_of_sentences
from tests.frontends.huggingface.test_texts import folder_of, tokenizer
from tests.seeded import seeded

LEAST = 64

PRODUCT = """<ir_version: 10, opset_import: ["" : 21]> product (float[b, 128] x) => (float[b, 130] y) {
    h = MatMul(x, w)  y = Relu(h)
}"""


def product(path: Path) -> Path:
    onnx.save(seeded(PRODUCT, {"w": (128, 130)}), path)
    return path


def both(folder: Path, tmp_path: Path) -> tuple[ImportedModel, deploykit.Session, deploykit.Session]:
    """The quantised model of a folder, and sessions of the model before and after."""
    model = deploykit.load(folder)
    result = Quantization(least=LEAST).quantized(model)
    for name, each in (("before", model), ("after", result)):
        deploykit.build(each, output=tmp_path / name)
    return result, deploykit.open(tmp_path / "before"), deploykit.open(tmp_path / "after")


def test_the_table_has_the_kinds_of_the_pass() -> None:
    assert tuple(KINDS) == get_args(quantize_weights.Kind)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_bits(tmp_path: Path, kind: Kind) -> None:
    """What elements share, such as a step for each column, is small."""
    model = deploykit.load(product(tmp_path / "p.onnx"))
    _, found = quantize_weights.quantize_weights(model.module, kind.name, LEAST)
    assert 0 <= found.after - 128 * 130 * kind.bits // 8 < found.before / (30 if kind.grouped else 50)


@pytest.mark.slow
def test_embeddings(tmp_path: Path) -> None:
    folder = folder_of_sentences(tmp_path / "model", ("Pooling", {"pooling_mode": "mean"}))
    tokenizer().save(str(folder / "tokenizer.json"))
    model, before, after = both(folder, tmp_path)
    a, b = before.embed(TEXTS), after.embed(TEXTS)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    expected = f"cosine similarity to those of float32 {cosines.mean():.4f}, at least {cosines.min():.4f}"
    assert model.notes[-1] == f"embeddings of {len(TEXTS)} texts: {expected}"
    assert 0.95 < cosines.min() < 1
    before.close()
    after.close()


def test_models_of_pictures_are_tried_on_random_inputs(tmp_path: Path) -> None:
    model = Quantization(least=LEAST).quantized(deploykit.load(folder_of_pictures(tmp_path, "classify")))
    assert model.task is not None
    assert model.notes[-1].startswith("results for random inputs change: logits by ")


@pytest.mark.slow
def test_language_models_without_a_tokenizer_are_tried_on_random_tokens(tmp_path: Path) -> None:
    config_of("llama", tmp_path / "llama")
    deploykit.build(tmp_path / "llama", output=tmp_path / "dist")
    assert deploykit.bench(tmp_path / "dist", seconds=0.01).ours.median > 0
    model = Quantization("q8", least=LEAST).quantized(deploykit.load(tmp_path / "llama"))
    found = re.match("results for random inputs change: logits by (.*)%", model.notes[-1])
    assert found is not None
    assert 0 < float(found[1]) < 3


@pytest.mark.slow
def test_classes_of_texts(tmp_path: Path) -> None:
    model, before, after = both(folder_of(tmp_path / "model", "bert-classes"), tmp_path)
    with before, after:
        scores = [[{label.name: label.score for label in row} for row in s.classify(TEXTS)] for s in (before, after)]
    most = max(abs(a[name] - b[name]) for a, b in zip(*scores, strict=True) for name in a)
    same = sum(max(a, key=a.__getitem__) == max(b, key=b.__getitem__) for a, b in zip(*scores, strict=True))
    expected = f"{same} are those of float32, scores differ by at most {most:.3f}"
    assert model.notes[-1] == f"classes of {len(TEXTS)} texts: {expected}"


@pytest.mark.slow
def test_classes_of_tokens(tmp_path: Path) -> None:
    model, before, after = both(folder_of(tmp_path / "model", "bert-tokens"), tmp_path)
    with before, after:
        labels = [[span.label for row in session.tokens(TEXTS) for span in row] for session in (before, after)]
    same = sum(a == b for a, b in zip(*labels, strict=True))
    assert model.notes[-1] == f"classes of {len(labels[0])} tokens: {same} are those of float32"
    assert same > len(labels[0]) // 2


@pytest.mark.slow
def test_answers(tmp_path: Path) -> None:
    model, before, after = both(folder_of(tmp_path / "model", "bert-answers"), tmp_path)
    with before, after:
        same = sum(before.answer(*pair).text == after.answer(*pair).text for pair in QUESTIONS)
    assert model.notes[-1] == f"answers to {len(QUESTIONS)} questions: {same} are those of float32"


def test_tensors(tmp_path: Path) -> None:
    done = ran("deploykit", "build", product(tmp_path / "p.onnx"), "--quantize", "int8", "-o", tmp_path / "d", "--json")
    assert done.returncode == 0, done.stderr
    bytes_of, change = json.loads(done.stdout)["manifest"]["notes"]
    assert bytes_of == "the weights of 1 product and 0 tables are int8: 17,160 instead of 66,560 bytes"
    found = re.fullmatch(r"results for random inputs change: y by (.*)% \(root.*\)", change)
    assert found is not None
    assert 0.1 < float(found[1]) < 3
    with deploykit.open(tmp_path / "d") as session:
        assert session.manifest.peak_memory.weights < 4 * 128 * 130 / 3


@pytest.mark.slow
def test_texts_to_try(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "bert-classes")
    model = Quantization(texts=["a", "the cat"], least=LEAST).quantized(deploykit.load(folder))
    assert model.notes[-1].startswith("classes of 2 texts: ")


@pytest.mark.parametrize(
    ("kind", "number", "reason"),
    [
        ("fp16", 3e5, "1 large weight cannot be fp16, for numbers beyond 65504"),
        ("int8", np.inf, "1 large weight cannot be int8, for infinities or NaN"),
    ],
)
def test_weights_that_have_no_form(tmp_path: Path, kind: str, number: float, reason: str) -> None:
    model = onnx.load(product(tmp_path / "p.onnx"))
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight.reshape(-1)[5] = number
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, model.graph.initializer[0].name))
    with pytest.raises(UsageError, match=reason):
        deploykit.build(model, output=tmp_path / "d", quantize=kind)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantize": "int3"}, "weights cannot be 'int3'; there are int8, fp16, q4"),
        ({"quantize": "int8", "check": True}, "a quantised model cannot be checked"),
        ({"quantize": "int8", "samples": "texts.json"}, "texts to try .* are for a model of texts"),
        ({"quantize": "int8", "samples": "numbers.json"}, "is no list of texts"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    (tmp_path / "texts.json").write_text('["a"]')
    (tmp_path / "numbers.json").write_text("[1]")
    if "samples" in options:
        options = options | {"samples": tmp_path / str(options["samples"])}
    with pytest.raises(UsageError, match=message):
        deploykit.build(product(tmp_path / "p.onnx"), output=tmp_path / "d", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "d").exists()


def test_nothing_to_quantise(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to quantise: no product and no table has a float32 weight of 16,384"):
        Quantization().quantized(deploykit.load(folder_of(tmp_path / "model", "bert-classes")))


def test_boards_have_smaller_weights(tmp_path: Path) -> None:
    path, outputs = tmp_path / "p.onnx", {}
    onnx.save(seeded(PRODUCT.replace("130", "10").replace("128", "30"), {"w": (30, 10)}), path)
    for kind in (None, "int8"):
        place = tmp_path / str(kind)
        artifact = deploykit.build(path, "embedded", {"b": (1, 3)}, place, quantize=kind)
        with deploykit.open(place) as session:
            outputs[kind] = session(x=np.random.default_rng(0).standard_normal((3, 30), np.float32))["y"]
    assert artifact is not None
    assert artifact.manifest.notes[0] == "the weights of 1 product and 0 tables are int8: 340 instead of 1,200 bytes"
    np.testing.assert_allclose(outputs["int8"], outputs[None], atol=0.03 * np.abs(outputs[None]).max())
    with pytest.raises(UsageError, match="16,384 elements; deploykit quantize"):
        deploykit.build(path, "host", {"b": (1, 3)}, tmp_path / "host", quantize="int8")


def test_a_dynamic_model() -> None:
    path = Path(__file__).parent / "dynamic" / "models.py"
    with pytest.raises(UsageError, match="a dynamic model cannot be quantised"):
        Quantization().quantized(deploykit.load(f"{path}:TreeLSTM"))
