"""Models of texts in Java: the methods of the classes give what a session in Python gives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.targets.android import AndroidTarget
from deploykit.text import Tokenizer
from tests.android.conftest import Run, aar_of, needs_desktop, needs_java, on_desktop
from tests.android.natives import Natives
from tests.android.test_natives import each_abi
from tests.conftest import Golden
from tests.frontends.huggingface.mask_cases import COUNT, MASK_CASES
from tests.frontends.huggingface.test_masks import folder_of as masks_folder_of
from tests.frontends.huggingface.test_masks import pairs
from tests.frontends.huggingface.test_texts import TEXTS, folder_of, sentences_of
from tests.frontends.huggingface.texts_in_c import words_of

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

MANY = [*TEXTS, "\U0001f600 the cat", "e\u0301a b\u00fc"]


class Model:
    """A case as an AAR, with the program that calls its classes."""

    def __init__(self, folder: Path, test: str) -> None:
        place = folder.parent
        self.dist = place / "dist"
        deploykit.build(folder, AndroidTarget(["x86_64"]), output=self.dist)
        (place / "test").mkdir()
        self.run: Run = on_desktop(self.dist, test, place / "test")
        self.texts = place / "texts"
        self.texts.write_text("".join(f"{text}\0" for text in MANY), encoding="utf-8")

    def source(self, name: str) -> str:
        path = aar_of(self.dist)
        with zipfile.ZipFile(path.with_name(f"{path.stem}-sources.jar")) as archive:
            return archive.read(f"org/deploykit/model/{name}.java").decode()


def units(text: str, place: int) -> int:
    """A place in characters in units of UTF-16."""
    return len(text[:place].encode("utf-16-le")) // 2


def test_tokens(tmp_path: Path, golden: Golden) -> None:
    model = Model(folder_of(tmp_path / "model", "bert-tokens"), "TextTokens")
    golden(model.source("Texts"), "tokens.java")
    *lines, again, lone, none, others, closed = model.run("all", model.texts)
    with deploykit.open(model.dist) as session:
        expected = session.tokens([*MANY, "a \ufffd b"])
    for text, line, spans in zip([*MANY, "a \ufffd b"], [*lines, lone], expected, strict=True):
        words = line.split()
        wanted = [(span.label, units(text, span.start), units(text, span.end)) for span in spans]
        assert list(zip(words[::4], map(int, words[2::4]), map(int, words[3::4]), strict=True)) == wanted
        np.testing.assert_allclose([float(x) for x in words[1::4]], [span.score for span in spans], rtol=1e-5)
    assert again.split()[::4] == lines[0].split()[::4]
    assert none == "[] [LABEL_0, LABEL_1]"
    assert (others, closed) == ("[]", "the model is closed")


def test_classes(tmp_path: Path, golden: Golden) -> None:
    model = Model(
        folder_of(tmp_path / "model", "bert-classes", id2label={"0": 'b"a\u00e9d', "1": "good"}), "TextClasses"
    )
    golden(model.source("Texts"), "classify.java")
    *lines, short, magic, missing = model.run("all", model.texts)
    with deploykit.open(model.dist) as session:
        expected = session.classify(MANY)
    for line, labels in zip(lines, expected, strict=False):
        words = line.split()
        assert words[::2] == [label.name for label in labels]
        np.testing.assert_allclose([float(x) for x in words[1::2]], [label.score for label in labels], rtol=1e-5)
    assert len(lines) == len(MANY) + 4
    assert {line.strip("[]").replace(",", "").split()[0] for line in lines[-4:]} == {expected[0][0].name}
    assert short.startswith("the asset 'model/tokenizer.bin' has 1000 bytes, not ")
    assert magic == "this is no tokenizer: pass the contents of tokenizer.bin"
    assert missing.startswith("the asset 'model/tokenizer.bin' ")


def test_answers(tmp_path: Path, golden: Golden) -> None:
    model = Model(folder_of(tmp_path / "model", "bert-answers"), "TextAnswers")
    golden(model.source("Texts"), "answer.java")
    *lines, empty, full = model.run("all")
    contexts = ["the cat sat on a mat", "a", "\U0001f600 " + "sat on the mat. " * 9]
    with deploykit.open(model.dist) as session:
        for context, line in zip(contexts, lines, strict=True):
            score, start, end, text = line.split(" ", 3)
            expected = session.answer("who sat?", context)
            assert (text, int(start)) == (expected.text, units(context, expected.start))
            assert int(end) == units(context, expected.end)
            assert float(score) == pytest.approx(expected.score, rel=1e-5)
    assert empty == "the question leaves no room for the context: it has too many tokens"
    assert full == "the text that is to be cut is too short: cut the longest, or allow more tokens"


def test_masks(tmp_path: Path, golden: Golden) -> None:
    model = Model(masks_folder_of(tmp_path / "model", "bert-words"), "TextMasks")
    golden(model.source("Texts"), "fill.java")
    texts = [*MASK_CASES["bert-words"].texts, "\U0001f600 [MASK] e\u0301a"]
    model.texts.write_text("".join(f"{text}\0" for text in texts), encoding="utf-8")
    *lines, all_words, none, without, cut, zero, closed = model.run("all", model.texts, COUNT)
    with deploykit.open(model.dist) as session:
        expected = [*pairs(session.fill(texts, COUNT)), pairs([session.fill(texts[0], 1000)])[0]]
    for masks, expected_masks in zip(words_of([*lines, all_words]), expected, strict=True):
        for words, wanted in zip(masks, expected_masks, strict=True):
            assert [text for text, _ in words] == [text for text, _ in wanted]
            np.testing.assert_allclose([score for _, score in words], [score for _, score in wanted], rtol=0, atol=1e-6)
    assert none == "[]"
    message = "the text has no [MASK], or is cut off before it: put it where a token is to be filled in"
    assert without == cut == f"DataException {message}"
    assert (zero, closed) == (
        "DataException count must be at least 1; found 0",
        "ClosedException the model is closed",
    )


def test_vectors(tmp_path: Path, golden: Golden) -> None:
    """Of more texts than run at once, too."""
    model = Model(sentences_of(tmp_path / "model"), "TextVectors")
    golden(model.source("Texts"), "embed.java")
    many = [*MANY, *(f"cat {'a ' * (n % 30)}" for n in range(1500))]
    model.texts.write_text("".join(f"{text}\0" for text in many), encoding="utf-8")
    *lines, both, none = model.run("all", model.texts)
    with deploykit.open(model.dist) as session:
        expected = session.embed(many)
    np.testing.assert_allclose([[float(x) for x in line.split()] for line in lines], expected, rtol=0, atol=1e-6)
    assert (both, none) == ("2 24", "0")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("texts")
    deploykit.build(folder_of(place / "model", "bert-answers"), AndroidTarget(), output=place / "dist")
    return place / "dist"


@each_abi
def test_native_methods(package: Path, abi: str, tmp_path: Path) -> None:
    """The tokens of texts and pairs, and what is short of memory or damaged, with a JVM that checks every call."""
    expected = Tokenizer((package / "tokenizer.bin").read_bytes())
    with Natives(package, abi, tmp_path) as natives:
        handle = natives("create", 1)
        path = natives.assets / "tokenizer.bin"
        assert natives("map", handle, 1, -1, bytearray(bytes(path)), 0, path.stat().st_size) == 0
        assert natives("openTexts", handle) == 0
        for first, second, most in [
            *((text, None, 40) for text in MANY),
            ("who?", MANY[4], 40),
            ("a " * 5000, None, 0),
        ]:
            count = np.zeros(1, np.int64)
            given = [None if text is None else bytearray(text.encode()) for text in (first, second)]
            assert natives("encode", handle, *given, most, 0, count) == 0
            found = [np.zeros(int(count[0]) * width, np.int64) for width in (1, 1, 2, 1)]
            natives("tokens", handle, *found)
            wanted = expected.encode(first, second, most=most, cut="longest_first" if second is None else "only_second")
            arrays = (wanted.ids, wanted.type_ids, wanted.offsets.ravel(), wanted.texts)
            for array, want in zip(found, arrays, strict=True):
                np.testing.assert_array_equal(array, want)
        message = bytearray(256)
        assert natives("encode", handle, bytearray(b"a"), None, 1, 0, count) == 8
        natives("error", handle, message)
        assert message.startswith(b"the special tokens alone are more than the most tokens")
        natives("close", handle)
        other = natives("create", 1)
        assert natives("allocate", other, 1, 8) == 0
        assert natives("openTexts", other) == 6
        natives("close", other)
        assert natives.end() == (0, "")


def test_the_text_of_a_token(tmp_path: Path) -> None:
    """It is written if there is room for it."""
    folder = masks_folder_of(tmp_path / "model", "bert-words")
    deploykit.build(folder, AndroidTarget(["x86_64"]), output=tmp_path / "dist")
    with Natives(tmp_path / "dist", "x86_64", tmp_path) as natives:
        handle = natives("create", 1)
        path = natives.assets / "tokenizer.bin"
        assert natives("map", handle, 1, -1, bytearray(bytes(path)), 0, path.stat().st_size) == 0
        assert natives("openTexts", handle) == 0
        for token, room, written in [(4, 8, b"[MASK]\0\0"), (4, 6, b"[MASK]"), (4, 5, bytes(5)), (4, 0, b"")]:
            text, count = bytearray(room), np.zeros(1, np.int64)
            assert natives("decode", handle, token, text, count) == 0
            assert (bytes(text), count[0]) == (written, 6)
        natives("close", handle)
        assert natives.end() == (0, "")
