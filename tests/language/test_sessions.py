"""Sessions that generate text."""

from __future__ import annotations

import gc
import itertools
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Format

import deploykit
from deploykit.errors import DataError, UsageError
from deploykit.sessions.session import Session
from tests.language.models import END, TEMPLATE, WORDS, write_language_model
from tests.language.windows import without_oldest

MESSAGES = [{"role": "user", "content": "abc"}]


def greedy(session: Session, prompt: str, count: int) -> list[int]:
    """The most probable tokens, each from the scores of the whole text."""
    tokens = [int(token) for token in session.language.tokenizer.encode(prompt).ids]
    found: list[int] = []
    for _ in range(count):
        found.append(int(session.logits([*tokens, *found])[-1].argmax()))
    return found


def test_answers_are_those_of_whole_texts(session: Session) -> None:
    expected = greedy(session, "hello", 12)
    answer = session.generate("hello", max_tokens=12, ignore_end=True)
    pieces = list(answer)
    assert answer.tokens == expected == [token for piece in pieces for token in piece.tokens]
    assert answer.text == "".join(piece.text for piece in pieces)
    assert answer.reason == "length"
    assert answer.timings.prompt_tokens == 5
    for piece in pieces:
        assert all(logprob <= 0 for logprob in piece.logprobs)


def test_the_end_of_an_answer(session: Session) -> None:
    bias = {END: 1e9}
    answer = session.generate(MESSAGES, logit_bias=bias)
    assert answer.read() == ""
    assert (answer.reason, answer.tokens) == ("stop", [])
    longer = session.generate(MESSAGES, logit_bias=bias, ignore_end=True, max_tokens=3)
    assert longer.read() == "EEE"


def test_stops_are_not_shown(session: Session) -> None:
    whole = session.generate("hello", max_tokens=20, ignore_end=True).read()
    stop = whole[5:8]
    answer = session.generate("hello", max_tokens=20, ignore_end=True, stop=[stop, "zzzz"])
    shown = ""
    for piece in answer:
        shown += piece.text
        assert whole.startswith(shown)
    assert shown == answer.text == whole[: whole.find(stop)]
    assert answer.reason == "stop"


def test_a_stop_that_never_comes(session: Session) -> None:
    """What may have been its beginning is shown at the end."""
    whole = session.generate("hello", max_tokens=20, ignore_end=True).read()
    answer = session.generate("hello", max_tokens=20, ignore_end=True, stop=[whole[-3:] + "!", whole + "!"])
    pieces = [piece.text for piece in answer]
    assert ("".join(pieces), answer.text, answer.reason) == (whole, whole, "length")
    assert pieces[:-1] == [""] * 19  # a stop begins as the answer does


def test_several_answers_go_on_together(session: Session) -> None:
    session.reset({"pages": 8})
    prompts = ["a", "hello there", "w1 w1", "q?"]
    alone = [session.generate(prompt, max_tokens=9, ignore_end=True).read() for prompt in prompts]
    answers = [session.generate(prompt, max_tokens=9, ignore_end=True) for prompt in prompts]
    parts = ["" for _ in prompts]
    for pieces in itertools.zip_longest(*answers):
        for number, piece in enumerate(pieces):
            parts[number] += piece.text if piece is not None else ""
    assert parts == alone
    assert session.language.pages.unused == session.language.pages.count


def test_a_conversation_is_remembered(session: Session) -> None:
    chat = session.chat("s", max_tokens=5, ignore_end=True)
    first = chat.ask("abc")
    assert [message["role"] for message in chat.messages] == ["system", "user", "assistant"]
    fresh = session.generate([*chat.messages, {"role": "user", "content": "d"}], max_tokens=5, ignore_end=True).read()
    assert chat.ask("d") == fresh
    assert chat.answer.timings.prompt_tokens < chat.used - 5
    assert chat.messages[2]["content"] == first
    chat.reset()
    assert chat.messages == [{"role": "system", "content": "s"}]
    chat.close()
    assert session.language.pages.unused == session.language.pages.count


def test_steps_of_other_threads(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step reads a text whose every token's scores are asked for."""
    language = session.language
    tokens = [int(token) for token in np.arange(language.task.context) % 50]
    expected = session.logits(tokens)
    begin = language.begin
    threads = []

    def begun(tokens: Sequence[int]) -> object:
        sequence = begin(tokens)
        threads.append(threading.Thread(target=language.step))
        threads[0].start()
        threads[0].join(0.3)
        return sequence

    monkeypatch.setattr(language, "begin", begun)
    found = session.logits(tokens)
    threads[0].join()
    np.testing.assert_array_equal(found, expected)


def test_an_answer_that_is_dropped_is_forgotten(session: Session) -> None:
    for piece in session.generate("hello"):
        assert piece.tokens
        break
    answer = session.generate("hello")
    next(answer)
    answer.close()
    assert answer.reason == "closed"
    assert session.language.pages.unused == session.language.pages.count


def test_a_conversation_that_is_dropped_goes_on(session: Session) -> None:
    """What was said so far is said, and pages are given back with the conversation."""
    chat = session.chat(max_tokens=8, ignore_end=True)
    pieces = chat.send("abc")
    said = next(pieces).text + next(pieces).text
    del pieces
    gc.collect()
    assert chat.messages == [*MESSAGES, {"role": "assistant", "content": said}]
    again = [*chat.messages, {"role": "user", "content": "d"}]
    expected = session.generate(again, max_tokens=8, ignore_end=True).read()
    assert chat.ask("d") == expected
    chat.close()
    assert session.language.pages.unused == session.language.pages.count


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_scores_that_choose_nothing(session: Session, value: float) -> None:
    """The answer ends with an error, and nothing stays behind."""
    scores = session.language._scores
    session.language._scores = lambda parts, *_: [np.full((1, len(WORDS)), value, np.float32) for _ in parts]  # type: ignore[method-assign]
    answer = session.generate("hello", temperature=0.5)
    with pytest.raises(DataError, match="no token is possible"):
        next(answer)
    assert answer.reason == "closed"
    session.language._scores = scores  # type: ignore[method-assign]
    assert session.language.pages.unused == session.language.pages.count
    assert session.generate("hello", max_tokens=3, ignore_end=True).read()


def test_a_sequence_shares_what_it_has_in_common(session: Session) -> None:
    session.reset({"pages": 8})
    language = session.language
    tokens = [int(token) for token in np.random.default_rng(0).integers(0, len(WORDS), 36)]
    first = language.begin(tokens)
    while first.scores is None:
        assert language.step()
    other = language.fork(first)
    assert language.remembered(other) == 32
    used = language.pages.count - language.pages.unused
    other.tokens.append(7)
    while other.scores is None:
        assert language.step()
    assert language.pages.count - language.pages.unused == used + 1
    np.testing.assert_allclose(other.scores, session.logits([*tokens, 7])[-1], rtol=0, atol=1e-4)
    language.replace(other, [*tokens[:20], 3, 4])
    while other.scores is None:
        assert language.step()
    np.testing.assert_allclose(other.scores, session.logits([*tokens[:20], 3, 4])[-1], rtol=0, atol=1e-4)
    language.end(first)
    language.end(other)


def test_memory_that_is_full(session: Session) -> None:
    session.reset({"pages": 2})
    one = session.generate("a" * 10, ignore_end=True)
    next(one)
    other = session.generate("b" * 30, max_tokens=20, ignore_end=True)
    with pytest.raises(UsageError, match="at token 33 of the text that begins with 'bbbbbbbb': end other"):
        other.read()
    assert next(one).tokens
    one.close()
    session.reset()
    assert session.generate("b" * 30, max_tokens=5, ignore_end=True).read()


def test_the_context_is_never_exceeded(session: Session) -> None:
    context = session.language.task.context
    answer = session.generate("a" * (context - 3), ignore_end=True)
    answer.read()
    assert (len(answer.tokens), answer.reason) == (4, "length")
    with pytest.raises(UsageError, match=f"has {context + 1} tokens, and this artifact takes {context}"):
        session.generate("a" * (context + 1))


@pytest.mark.parametrize("sinks", [0, 4, 38])
@pytest.mark.parametrize("draft", [None, "ngram"])
def test_a_text_goes_on_without_its_oldest_tokens(session: Session, sinks: int, draft: str | None) -> None:
    """The scores are those of a text that consists of the tokens that are kept."""
    tokens = [int(token) for token in session.language.tokenizer.encode("abcdefgh" * 4).ids]
    expected = without_oldest(session, tokens, 60, sinks)
    given = {"max_tokens": 60, "ignore_end": True, "overflow": "window", "sinks": sinks, "draft": draft}
    answer = session.generate(tokens, **given)
    answer.read()
    assert (answer.tokens, answer.reason) == (expected, "length")
    assert session.language.pages.unused == session.language.pages.count


def test_a_prompt_without_its_oldest_tokens(session: Session) -> None:
    tokens = [int(token) for token in np.random.default_rng(1).integers(0, len(WORDS), 100)]
    answer = session.generate(tokens, max_tokens=3, ignore_end=True, overflow="window", sinks=2)
    assert answer.timings.prompt_tokens == 2 + 19
    same = session.generate([*tokens[:2], *tokens[-19:]], max_tokens=3, ignore_end=True)
    assert answer.read() == same.read()
    chat = session.chat(max_tokens=9, ignore_end=True, overflow="window")
    for text in ("abc", "d" * 30, "e" * 50):
        assert chat.ask(text)
    assert chat.messages[4] == {"role": "user", "content": "e" * 50}


def test_special_tokens_and_characters_of_several_bytes(session: Session) -> None:
    first, second = WORDS.index("Ã"), WORDS.index("©")
    answer = session.generate("a", max_tokens=2, logit_bias={first: 1e6, second: 5e5}, presence_penalty=1e6)
    assert [piece.text for piece in answer] == ["", "é"]
    cut = session.generate("a", max_tokens=1, logit_bias={first: 1e6})
    assert cut.read() == "\ufffd"


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ("", {}, "the text is empty"),
        ([], {}, "the text is empty"),
        ([len(WORDS)], {}, f"there is no token {len(WORDS)}"),
        ("a", {"max_tokens": -1}, "max_tokens must be a whole number"),
        ("a", {"max_tokens": 1.5}, "max_tokens must be a whole number"),
        ("a", {"temperatur": 1}, "there is no setting 'temperatur'; there are frequency_penalty"),
        ("a", {"temperature": -1}, "temperature is -1"),
        ("a", {"temperature": float("nan")}, "temperature is nan"),
        ("a", {"temperature": float("inf")}, "temperature is inf"),
        ("a", {"seed": 1 << 64}, "seed must be an integer of 64 bits"),
        ("a", {"overflow": "drop"}, "overflow is 'drop'; there are 'error' and 'window'"),
        ("a", {"overflow": "window", "sinks": 39}, "sinks is 39; it must be a whole number from 0 to 38"),
        ("a", {"stop": [""]}, "is empty"),
        (
            [{"role": "robot", "content": "x"}],
            {},
            "has the role 'robot'; there are system, developer, user, assistant, tool",
        ),
        ([{"role": "user"}], {}, "message 0 is no object with 'role' and 'content'"),
    ],
)
def test_what_cannot_be_asked(session: Session, prompt: object, settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        session.generate(prompt, **settings)  # type: ignore[arg-type]
    assert session.language.pages.unused == session.language.pages.count


def test_no_token_is_asked_for(session: Session) -> None:
    answer = session.generate("a", max_tokens=0)
    assert (list(answer), answer.text, answer.reason) == ([], "", "length")


def test_perplexity(session: Session) -> None:
    text = "hello there, who are you?"
    tokens = [int(token) for token in session.language.tokenizer.encode(text).ids]
    scores = session.logits(tokens).astype(np.float64)
    chances = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    expected = np.exp(-np.mean([chances[n, token] for n, token in enumerate(tokens[1:])]))
    assert session.perplexity(text, 40) == pytest.approx(expected, rel=1e-5)
    assert session.perplexity(text, 8) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("cache", "part", "most"), [("float16", 1 / 2, 1e-3), ("int8", 3 / 8, 2e-2)])
def test_what_is_remembered_in_fewer_bits(
    session: Session, tmp_path: Path, cache: Literal["float16", "int8"], part: float, most: float
) -> None:
    """Heads have 8 channels, so that a scale of 4 bytes is half of what 8 bits take."""
    deploykit.build(write_language_model(tmp_path / "model.gguf"), output=tmp_path / "dist", cache=cache)
    tokens = session.language.tokenizer.encode("hello there, who are you?").ids
    expected = session.logits(tokens)
    with deploykit.open(tmp_path / "dist") as small:
        found = small.logits(tokens)
        sizes = [sum(s.manifest.states.item_bytes) for s in (session, small) if s.manifest.states is not None]
    assert 0 < np.abs(found - expected).max() < most * np.abs(expected).max()
    assert sizes[1] == part * sizes[0]


def test_models_without_a_template(tmp_path: Path) -> None:
    deploykit.build(write_language_model(tmp_path / "model.gguf", template=""), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        assert session.generate("a", max_tokens=3, ignore_end=True).read()
        with pytest.raises(UsageError, match="has no template of conversations"):
            session.generate(MESSAGES)
        with pytest.raises(UsageError, match="has no template of conversations"):
            session.chat()


def test_other_models_do_not_generate(artifact: Path, tmp_path: Path) -> None:
    with deploykit.open(artifact) as session, pytest.raises(UsageError, match="takes messages, not"):
        session.embed("a")
    deploykit.build(write_language_model(tmp_path / "model.gguf"), output=tmp_path / "dist", generate=False)
    with deploykit.open(tmp_path / "dist") as session, pytest.raises(UsageError, match="takes tensors only"):
        session.generate("a")


@pytest.mark.parametrize("form", [Format.Q4_0, Format.Q4_1, Format.Q8_0], ids=lambda form: form.name)
def test_bits_of_a_file_are_kept(tmp_path: Path, form: Format) -> None:
    """The weights are stored in the groups of the file, and scores are those of floats."""
    path = write_language_model(tmp_path / "model.gguf", form)
    deploykit.build(path, output=tmp_path / "bits")
    deploykit.build(path, output=tmp_path / "floats", keep_bits=False)
    with deploykit.open(tmp_path / "bits") as bits, deploykit.open(tmp_path / "floats") as floats:
        expected = floats.logits("hello there")
        np.testing.assert_allclose(bits.logits("hello there"), expected, rtol=0, atol=1e-3 * np.abs(expected).max())
        assert bits.manifest.peak_memory.weights < floats.manifest.peak_memory.weights


def test_the_manifest_says_what_the_model_is_for(artifact: Path) -> None:
    task = json.loads((artifact / "manifest.json").read_text())["task"]
    assert (task["takes"], task["kind"], task["template"]) == ("messages", "generate", TEMPLATE)
    assert task["stops"] == [END]
    assert task["program"]
    assert not task["lacks"]
