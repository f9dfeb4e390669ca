"""Beam searches find what those of transformers find."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploykit.errors import DataError, UsageError
from deploykit.sessions.language.beams import search
from deploykit.sessions.session import Session
from tests.language.models import END

CASES = json.loads(Path(__file__).with_name("beams.json").read_text())


@pytest.mark.parametrize("count", [2, 4])
def test_transformers(session: Session, count: int) -> None:
    session.reset({"pages": 8})
    for case in (case for case in CASES if case["count"] == count):
        settings = {"length_penalty": case["penalty"], "ends": case["ends"], "max_tokens": 9}
        found = search(session.language, case["prompt"], count=count, **settings)
        assert [list(beam.tokens) for beam in found] == [beam["tokens"] for beam in case["beams"]], case
        assert [beam.score for beam in found] == pytest.approx([beam["score"] for beam in case["beams"]], abs=1e-4)
        assert [beam.reason == "stop" for beam in found] == [beam["ended"] for beam in case["beams"]]
    assert session.language.pages.unused == session.language.pages.count


def logprob(session: Session, prompt: list[int], tokens: list[int]) -> float:
    scores = session.logits([*prompt, *tokens])[len(prompt) - 1 : -1].astype(np.float64)
    chances = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return float(sum(chances[place, token] for place, token in enumerate(tokens)))


def test_one_beam_takes_the_most_probable_tokens(session: Session) -> None:
    (beam,) = session.beams("hello", 1, max_tokens=6, ignore_end=True)
    answer = session.generate("hello", max_tokens=6, ignore_end=True)
    assert (beam.text, list(beam.tokens), beam.reason) == (answer.read(), answer.tokens, "length")
    prompt = [int(token) for token in session.language.tokenizer.encode("hello").ids]
    assert beam.logprob == pytest.approx(logprob(session, prompt, list(beam.tokens)), abs=1e-4)
    assert beam.score == pytest.approx(beam.logprob / 6)


def test_as_many_beams_as_there_are_answers(session: Session) -> None:
    """All of them are found, over the borders of pages."""
    session.reset({"pages": 64})
    words = session.language.task.words
    prompt = [3] * 31
    found = session.beams(prompt, words, max_tokens=2, length_penalty=0.0, ignore_end=True)
    first = session.logits(prompt)[-1].astype(np.float64)
    first -= np.log(np.exp(first).sum())
    every = []
    for token in range(words):
        second = session.logits([*prompt, token])[-1].astype(np.float64)
        every += [(first[token] + chance, token, n) for n, chance in enumerate(second - np.log(np.exp(second).sum()))]
    best = sorted(every, reverse=True)[:words]
    assert [beam.tokens for beam in found] == [tuple(pair) for _, *pair in best]
    assert [beam.logprob for beam in found] == pytest.approx([chance for chance, *_ in best], abs=1e-4)


def test_the_end_of_an_answer(session: Session) -> None:
    messages = [{"role": "user", "content": "abc"}]
    scores = session.language._scores

    def ending(*given: Any, **more: Any) -> list[np.ndarray]:
        found = scores(*given, **more)
        for rows in found:
            rows[:, END] = 50
        return found

    session.language._scores = ending  # type: ignore[method-assign]
    session.reset({"pages": 8})
    found = session.beams(messages, 2, max_tokens=5)
    assert (found[0].text, found[0].tokens, found[0].reason) == ("", (), "stop")
    assert found[0].logprob == pytest.approx(0, abs=1e-3)
    assert [beam.reason for beam in session.beams(messages, 2, max_tokens=5, ignore_end=True)] == ["length"] * 2


def test_answers_go_on_beside(session: Session) -> None:
    session.reset({"pages": 12})
    alone = session.generate("hello", max_tokens=12, ignore_end=True).read()
    answer = session.generate("hello", max_tokens=12, ignore_end=True)
    parts = [piece.text for piece in itertools.islice(answer, 4)]
    found = session.beams("abc", 3, max_tokens=5)
    assert "".join(parts) + "".join(piece.text for piece in answer) == alone
    assert [beam.tokens for beam in found] == [beam.tokens for beam in session.beams("abc", 3, max_tokens=5)]


def test_the_context_ends_answers(session: Session) -> None:
    session.reset({"pages": 8})
    context = session.language.task.context
    assert [len(beam.tokens) for beam in session.beams([5] * (context - 2), 2, ignore_end=True)] == [3, 3]


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ("", {}, "the text is empty"),
        ("a", {"count": 0}, "count must be a whole number, 1 or more; found 0"),
        ("a", {"max_tokens": 0}, "max_tokens must be a whole number, 1 or more; found 0"),
        ("a", {"length_penalty": float("nan")}, "length_penalty must be a number; found nan"),
        ("a" * 31, {"max_tokens": 5}, "the memory is full, with 2 pages"),
    ],
)
def test_what_cannot_be_searched(session: Session, prompt: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        session.beams(prompt, **settings)
    assert session.language.pages.unused == session.language.pages.count


def test_more_beams_than_texts(session: Session) -> None:
    session.reset({"pages": 100})
    with pytest.raises(UsageError, match="there are 64 texts already"):
        session.beams("a", 70)
    assert session.language.pages.unused == 100


def test_scores_that_are_no_numbers(session: Session) -> None:
    session.language._scores = lambda parts, *_: [np.full((1, 50), np.nan, np.float32) for _ in parts]  # type: ignore[method-assign]
    with pytest.raises(DataError, match="scores that are no numbers"):
        session.beams("a")
