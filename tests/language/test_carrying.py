"""Models that carry a state from token to token: it is that of the text, whatever was read, cut and shared before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from deploykit.frontends.huggingface import memory
from deploykit.frontends.huggingface.generation import import_step
from deploykit.frontends.huggingface.importer import load_folder
from deploykit.sessions.language.engine import Sequence
from deploykit.sessions.session import Session
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden
from tests.language.carrying import CARRYING, WORDS, write_carrying_model
from tests.language.steps import Steps
from tests.language.test_steps import check
from tests.runtimes import Runtime

SIZE = 4
"""Tokens of a page of Mamba, so that short texts have many."""


@pytest.fixture(scope="module", params=CARRYING)
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "CARRIED_PAGE", SIZE)
        place = tmp_path_factory.mktemp(request.param)
        model = write_carrying_model(place / "model", request.param)
        deploykit.build(model, dims={"context": 100}, output=place / "dist")
        deploykit.build(load_folder(model), output=place / "whole")
        yield place


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with deploykit.open(folder / "dist") as opened:
        yield opened


def texts(count: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, len(WORDS), count)]


def scores(session: Session, sequence: Sequence) -> np.ndarray:
    while sequence.scores is None:
        assert session.language.step()
    return sequence.scores


def expected(folder: Path, tokens: list[int]) -> np.ndarray:
    """The scores after each token, of the model for whole texts, which remembers nothing."""
    with deploykit.open(folder / "whole") as whole:
        ids = np.asarray([tokens], np.int64)
        return whole(input_ids=ids, attention_mask=np.ones_like(ids))["logits"][0]


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * max(1.0, float(np.abs(wanted).max())))


@pytest.mark.parametrize("name", ["mamba", "falcon-mamba"])
def test_many_pages(tmp_path: Path, name: str, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of several pages, several of them in a step, as transformers reads them."""
    monkeypatch.setattr(memory, "CARRIED_PAGE", SIZE)
    stored = golden(name)
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    found = import_step(tmp_path / "model", {"pages": (1, 16), "context": 20})
    with runtime.session(found.model) as session:
        session.reset({"pages": 15})
        check(stored, Steps(session.run, 15, blocks=5, size=SIZE), 4)


def test_any_history(folder: Path, session: Session) -> None:
    """Sequences that grow, fork, and get other texts, whose pages others use again."""
    language, random = session.language, np.random.default_rng(7)
    session.reset({"pages": 80})
    assert language.task.whole
    going = [language.begin(texts(9, 0))]
    for number in range(40):
        sequence = going[int(random.integers(len(going)))]
        action = random.integers(5)
        if action == 0 and len(going) < 3:
            going.append(language.fork(sequence))
        elif action == 1 and len(going) > 1:
            language.end(sequence)
            going.remove(sequence)
        elif action == 2:
            kept = sequence.tokens[: int(random.integers(1, len(sequence.tokens) + 1))]
            language.replace(sequence, [*kept, *texts(int(random.integers(0, 9)), number)][:90])
        elif len(sequence.tokens) < 90:
            scores(session, sequence)
            language.follow(sequence, int(random.integers(len(WORDS))))
        language.at_once = int(random.integers(1, 12))
        if random.integers(2):
            language.step()
    for sequence in going:
        same(scores(session, sequence), expected(folder, sequence.tokens)[-1])
    for sequence in going:
        language.end(sequence)
    assert language.pages.unused == 80


def test_scores_of_long_texts(folder: Path, session: Session) -> None:
    tokens = texts(97, 3)
    session.language.at_once = 41
    same(session.logits(tokens), expected(folder, tokens))


def test_a_step_that_fails(folder: Path, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have changed the state, as when an interrupt follows it: its tokens are not added to that twice."""
    language = session.language
    sequence = language.begin(texts(43, 5))
    language.at_once = 39
    language.step()
    run = language._run

    def interrupted(inputs: object) -> object:
        run(inputs)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(language, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            language.step()
    assert language.remembered(sequence) in (32, 36)
    same(scores(session, sequence), expected(folder, sequence.tokens)[-1])


def test_a_conversation_reads_nothing_twice(session: Session, tmp_path: Path) -> None:
    chat = session.chat(max_tokens=6, ignore_end=True)
    chat.ask("abc")
    chat.save(tmp_path / "talk")
    answers = []
    for again in (chat, session.chat(restore=tmp_path / "talk", max_tokens=6, ignore_end=True)):
        before = again.used
        answers.append(again.ask("de"))
        assert again.answer.timings.prompt_tokens <= again.used - before + 1
    assert answers[0] == answers[1]


def test_no_guesses(session: Session) -> None:
    for draft in ("ngram", session):
        with pytest.raises(UsageError, match="cannot go back one token: it writes slower with guesses"):
            session.generate("abc", draft=draft)
