"""Sessions of models of texts: what `classify`, `tokens` and `answer` give follows from the tensors."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.basics.toolchain import find_c_compiler
from deploykit.errors import UsageError
from deploykit.sessions.tasks.labels import softmax
from deploykit.sessions.tasks.texts import TOKENS_AT_ONCE, Span
from tests.bench.commands import ran
from tests.frontends.huggingface import test_sentences
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", ".", ",", "!", "?"]
PIECES = ["the", "cat", "sat", "on", "##s", "##t", "##a", "mat", "a", "who"]
VOCABULARY = {word: index for index, word in enumerate(dict.fromkeys([*WORDS, *PIECES]))}

TEXTS = ["the cat sat on the mat.", "a", "", "Who?  THE cat\tsat!", "cats on mats, " * 20]


def tokenizer() -> Any:
    """BERT's tokenizer with a small vocabulary."""
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(VOCABULARY, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.add_special_tokens(WORDS[:5])
    return made


def folder_of(path: Path, case: str, **settings: Any) -> Path:
    stored = golden(case)
    write_folder(path, stored.config | settings, stored.shapes)
    tokenizer().save(str(path / "tokenizer.json"))
    return path


def sentences_of(path: Path) -> Path:
    """A model that gives vectors, with a tokenizer."""
    test_sentences.folder_of(path, ("Pooling", {"pooling_mode": "mean"}), ("Normalize", {}))
    tokenizer().save(str(path / "tokenizer.json"))
    return path


Made = Callable[..., deploykit.Session]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A session of a case with a tokenizer."""

    def make(case: str, **settings: Any) -> deploykit.Session:
        deploykit.build(folder_of(tmp_path / "model", case, **settings), output=tmp_path / "dist")
        return deploykit.open(tmp_path / "dist")

    return make


def logits(session: deploykit.Session, texts: Sequence[str], pairs: Sequence[str] | None = None) -> dict[str, Any]:
    """The tensors for texts, by the library tokenizers."""
    library = tokenizer()
    library.enable_truncation(40, strategy="only_second" if pairs else "longest_first")
    found = library.encode_batch(list(zip(texts, pairs, strict=True)) if pairs else list(texts))
    ids, types = [np.array(e.ids) for e in found], [np.array(e.type_ids) for e in found]
    return session(input_ids=ids, token_type_ids=types)


@pytest.mark.slow
def test_classes(made: Made) -> None:
    with made("bert-classes", id2label={"0": "bad", "1": "good"}) as session:
        expected = softmax(logits(session, TEXTS)["logits"])
        for labels, row in zip(session.classify(TEXTS), expected, strict=True):
            best = int(row.argmax())
            assert [label.name for label in labels] == ["bad", "good"][:: 1 if best == 0 else -1]
            np.testing.assert_allclose([label.score for label in labels], sorted(row)[::-1], rtol=1e-6)
        assert session.classify("a") == session.classify(["a"])[0]


def test_classes_of_which_several_may_hold(made: Made) -> None:
    with made("bert-classes", problem_type="multi_label_classification") as session:
        (row,) = logits(session, ["the cat"])["logits"]
        found = {label.name: label.score for label in session.classify("the cat")}
        np.testing.assert_allclose([found["LABEL_0"], found["LABEL_1"]], 1 / (1 + np.exp(-row)), rtol=1e-6)


def test_tokens(made: Made) -> None:
    with made("bert-tokens") as session:
        rows = logits(session, TEXTS)["logits"]
        for text, spans, row in zip(TEXTS, session.tokens(TEXTS), rows, strict=True):
            assert [span.text for span in spans] == [text[span.start : span.end] for span in spans]
            labels = [f"LABEL_{best}" for best in np.asarray(row)[1:-1].argmax(axis=1)]
            assert [span.label for span in spans] == labels
        assert [span.text for span in session.tokens("Cats sat")] == ["Cat", "s", "sat"]


@pytest.mark.slow
@pytest.mark.parametrize("context", ["the cat sat on a mat", "a", "sat on the mat. " * 9])
def test_answers(made: Made, context: str) -> None:
    with made("bert-answers") as session:
        found = session.answer("who sat?", context)
        results = logits(session, ["who sat?"], [context])
        start, end = (softmax(np.asarray(results[name][0])) for name in ("start_logits", "end_logits"))
        first = len(tokenizer().encode("who sat?").ids)
        spans = [(start[i] * end[j], i, j) for i in range(first, len(start) - 1) for j in range(i, len(end) - 1)]
        score, *_ = max(spans)
        assert isinstance(found, Span)
        assert found.text == context[found.start : found.end]
        assert found.score == pytest.approx(score, rel=1e-5)


def test_long_lists_run_in_parts(made: Made) -> None:
    with made("bert-classes") as session:
        texts = [f"cat {'a ' * (index % 30)}" for index in range(TOKENS_AT_ONCE // 12)]
        together = session.classify(texts)
        alone = [session.classify(text) for text in texts[:: len(texts) // 7]]
        for found, expected in zip(together[:: len(texts) // 7], alone, strict=True):
            assert [label.name for label in found] == [label.name for label in expected]
            np.testing.assert_allclose([a.score for a in found], [a.score for a in expected], rtol=1e-4)


def test_a_method_for_another_model(made: Made) -> None:
    with made("bert-classes") as session, pytest.raises(UsageError, match=r"does not embed.*'classify'"):
        session.embed("a")


def test_a_folder_without_a_tokenizer_takes_tensors(tmp_path: Path) -> None:
    stored = golden("bert-classes")
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    deploykit.build(tmp_path / "model", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        for method in (session.classify, session.embed, session.segment):
            with pytest.raises(UsageError, match=r"'model' takes tensors only: the folder has no tokenizer.json"):
                method("a")


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "bert-classes")
    fields = json.loads((folder / "tokenizer.json").read_text())
    fields["model"]["vocab"]["more"] = 50
    (folder / "tokenizer.json").write_text(json.dumps(fields))
    with pytest.raises(UsageError, match=r"has ids up to 50, but .* 50 words: the tokenizer belongs to another model"):
        deploykit.load(folder)


def test_the_library_encodes_texts(tmp_path: Path) -> None:
    """For callers from C: `text.h` is in the folder, and the library has its functions."""
    deploykit.build(folder_of(tmp_path / "model", "bert-classes"), output=tmp_path / "dist")
    program = """
#include "text.h"
#include <stdio.h>
#include <stdlib.h>

int main(int count, char** words) {
    static uint64_t tables[1 << 15], workspace[1 << 12];
    static int32_t ids[64];
    FILE* file = fopen(words[1], "rb");
    const size_t bytes = fread(tables, 1, sizeof tables, file);
    fclose(file);
    dk_text text;
    dk_text_tokens tokens = {.capacity = 64, .ids = ids};
    const dk_text_input input = {.first = words[2], .first_bytes = count > 3 ? (size_t)atoi(words[3]) : 0};
    if (dk_text_open(&text, tables, bytes) || dk_text_encode(&text, &input, workspace, sizeof workspace, &tokens)) {
        return puts(text.error);
    }
    for (int32_t i = 0; i < tokens.count; i++) {
        printf("%d ", ids[i]);
    }
    return 0;
}
"""
    (tmp_path / "app.c").write_text(program)
    dist = tmp_path / "dist"
    (library,) = dist.glob("lib*.so")
    find_c_compiler().compile(tmp_path / "app.c", tmp_path / "app.o", f"-I{dist}")
    link = [*find_c_compiler().command, str(tmp_path / "app.o"), str(library), f"-Wl,-rpath,{dist}"]
    subprocess.run([*link, "-o", str(tmp_path / "app")], check=True)
    sentence = "the cat sat on the mat."
    call = [str(tmp_path / "app"), str(dist / "tokenizer.bin"), sentence, str(len(sentence))]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert [int(number) for number in done.stdout.split()] == tokenizer().encode(sentence).ids


@pytest.mark.slow
def test_the_command_line(tmp_path: Path) -> None:
    folder_of(tmp_path / "model", "bert-classes", id2label={"0": "bad", "1": "good"})
    ran("deploykit", "build", tmp_path / "model", "-o", tmp_path / "dist")
    done = ran("deploykit", "run", tmp_path / "dist", "--text", "the cat sat", "--text", "who?", "--json")
    found = json.loads(done.stdout)["classes"]
    assert [{label["name"] for label in labels} for labels in found] == [{"bad", "good"}] * 2
