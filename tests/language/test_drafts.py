"""Guesses change no text where the most probable tokens are taken, and no probability where tokens are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from deploykit.language.sampling import Sampler, log_sum
from deploykit.options.generation import Sampling
from deploykit.sessions.language.drafts import DRAWN
from deploykit.sessions.session import Session
from tests.language.models import WORDS, write_language_model
from tests.language.test_cli import expected, ran


@pytest.fixture(scope="session")
def smaller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of another model with the same words."""
    place = tmp_path_factory.mktemp("smaller")
    deploykit.build(write_language_model(place / "model.gguf", name="qwen2"), output=place / "dist")
    return place / "dist"


@pytest.fixture
def draft(smaller: Path) -> Iterator[Session]:
    with deploykit.open(smaller) as opened:
        yield opened


def steps_of(session: Session) -> list[int]:
    """The tokens of each step that the session takes from now on."""
    found: list[int] = []
    run = session.language._run

    def counted(inputs: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
        found.append(len(inputs["tokens"]))
        return run(inputs)

    session.language._run = counted
    return found


def likely(counts: Mapping[Any, int], chances: Mapping[Any, float]) -> None:
    """Check by Pearson's chi-square test that things were drawn by these chances. Rare ones count together. The
    statistic is within four deviations of its mean."""
    total = sum(counts.values())
    assert counts.keys() <= {thing for thing, chance in chances.items() if chance > 0}
    cells = [(counts.get(thing, 0), total * chance) for thing, chance in chances.items() if total * chance >= 5]
    rest = total - sum(seen for seen, _ in cells), total - sum(mean for _, mean in cells)
    cells += [rest] if rest[1] >= 5 else []
    assert len(cells) > 2
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    freedom = len(cells) - 1
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5, (statistic, freedom)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 9},
        {"temperature": 1.5, "top_p": 0.9, "repetition_penalty": 1.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("near", [0.0, 0.5, 3.0], ids=["the same", "near", "another"])
def test_confirmed_guesses_have_the_probabilities_of_the_model(settings: dict[str, float], near: float) -> None:
    words = 24
    random = np.random.default_rng(3)
    scores = random.normal(0, 1.2, words).astype(np.float32)
    guessing = (scores + random.normal(0, near, words)).astype(np.float32)
    sampling = Sampling(**settings, seed=11)  # type: ignore[arg-type]
    sampler, drawer = Sampler(sampling, words), Sampler(Sampling(**settings, seed=12), words)  # type: ignore[arg-type]
    earlier = [1, 5, 1]
    chances, guessed = sampler.probabilities(scores, earlier), drawer.probabilities(guessing, earlier)
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    counts: Counter[int] = Counter()
    plain: Counter[int] = Counter()
    confirmed = 0
    for _ in range(8000):
        guess, _ = drawer.choose(guessing, earlier)
        token, logprob = sampler.choose(scores, earlier, (guess, guessed))
        confirmed += token == guess
        counts[token] += 1
        plain[sampler.choose(scores, earlier)[0]] += 1
    likely(counts, dict(enumerate(chances)))
    likely(plain, dict(enumerate(chances)))
    assert logprob == pytest.approx(float(scores[token]) - log_sum(scores), abs=1e-6)
    # What is confirmed is what both have in common, and by chance some of the rest.
    assert confirmed / 8000 >= np.minimum(chances, guessed).sum() - 0.03


def chances_of(
    session: Session, prompt: str, count: int, top_k: int, temperature: float
) -> dict[tuple[int, ...], float]:
    """The probabilities of the first tokens of an answer, by the scores of whole texts."""
    tokens = [int(token) for token in session.language.tokenizer.encode(prompt).ids]
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(count):
        longer: dict[tuple[int, ...], float] = {}
        for start, chance in found.items():
            scores = session.logits([*tokens, *start])[-1].astype(np.float64)
            best = np.argsort(-scores)[:top_k]
            weights = np.exp((scores[best] - scores[best].max()) / temperature)
            for token, weight in zip(best, weights / weights.sum(), strict=True):
                longer[(*start, int(token))] = chance * weight
        found = longer
    return found


@pytest.mark.parametrize("by", ["model", "ngram"])
def test_answers_have_the_probabilities_of_the_model(session: Session, draft: Session, by: str) -> None:
    prompt, settings = "abcabcab", {"temperature": 1.3, "top_k": 3}
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(1500):
        given = {"max_tokens": 3, "ignore_end": True, "seed": seed, **settings}
        answer = session.generate(prompt, draft=draft if by == "model" else "ngram", **given)  # type: ignore[arg-type]
        answer.read()
        counts[tuple(answer.tokens)] += 1
    likely(counts, chances_of(session, prompt, 3, 3, 1.3))
    assert session.language.pages.unused == session.language.pages.count
    assert draft.language.pages.unused == draft.language.pages.count


@pytest.mark.parametrize(
    "settings", [{}, {"repetition_penalty": 1.3}, {"max_tokens": 70, "overflow": "window"}], ids=str
)
def test_guesses_of_a_model_change_no_text(session: Session, draft: Session, settings: dict[str, Any]) -> None:
    for prompt in ("abcabcabc", "hello", [{"role": "user", "content": "w1"}]):
        given = {"max_tokens": 20, "ignore_end": True, **settings}
        plain = session.generate(prompt, **given)  # type: ignore[arg-type]
        plain.read()
        drafted = session.generate(prompt, draft=draft, **given)  # type: ignore[arg-type]
        drafted.read()
        assert (drafted.text, drafted.tokens, drafted.reason) == (plain.text, plain.tokens, plain.reason)
    assert draft.language.pages.unused == draft.language.pages.count


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_of_the_same_model_are_all_confirmed(artifact: Path, session: Session, temperature: float) -> None:
    with deploykit.open(artifact) as same:
        steps = steps_of(session)
        answer = session.generate("hello", max_tokens=21, ignore_end=True, draft=same, temperature=temperature, seed=2)
        answer.read()
        assert len(answer.tokens) == 21
        assert steps == [5, *[1 + DRAWN] * 4]


def test_a_conversation_with_guesses(artifact: Path, session: Session, draft: Session) -> None:
    texts = ("abc", "d")
    chat = session.chat(max_tokens=4, ignore_end=True, draft=draft)
    assert [chat.ask(text) for text in texts] == expected(artifact, *texts, max_tokens=4, ignore_end=True)
    steps = steps_of(draft)
    chat.ask("e")
    assert steps[0] < chat.used - 4  # the rest is remembered
    chat.close()
    assert draft.language.pages.unused == draft.language.pages.count


def test_a_draft_without_room(session: Session, draft: Session) -> None:
    """It guesses as long as it can."""
    draft.reset({"pages": 1})
    plain = session.generate("a" * 20, max_tokens=20, ignore_end=True).read()
    assert session.generate("a" * 20, max_tokens=20, ignore_end=True, draft=draft).read() == plain
    assert draft.language.pages.unused == 1


def test_what_cannot_guess(session: Session, tmp_path: Path) -> None:
    words = [*WORDS[:-1], "Z"]
    deploykit.build(write_language_model(tmp_path / "model.gguf", words=words), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as other:
        with pytest.raises(UsageError, match="the draft has another vocabulary"):
            session.generate("a", draft=other)
        other.close()
    for draft in ("bigram", 4):
        with pytest.raises(UsageError, match="there is 'ngram', a session of a smaller model, or None"):
            session.generate("a", draft=draft)  # type: ignore[arg-type]


def test_at_the_command_line(artifact: Path, smaller: Path) -> None:
    answer = expected(artifact, "abc", max_tokens=8)[0]
    for draft in (smaller, "ngram"):
        assert (
            ran("chat", artifact, "--max-tokens", 8, "--draft", draft, text="abc\n") == " ".join(answer.split()) + "\n"
        )
    assert "no artifact" in ran("chat", artifact, "--draft", "nowhere", text="abc\n", status=2)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7, "seed": 3}, {"repetition_penalty": 1.3}], ids=str)
def test_guesses_change_no_text(session: Session, settings: dict[str, float]) -> None:
    for prompt in ("abcabcabcabc", "hello", "w1 w1 w1 w1"):
        given = {"max_tokens": 20, "ignore_end": True, **settings}
        plain, drafted = session.generate(prompt, **given), session.generate(prompt, draft="ngram", **given)  # type: ignore[arg-type]
        assert drafted.read() == plain.read()
        assert drafted.tokens == plain.tokens
    assert session.language.pages.unused == session.language.pages.count


def test_guesses_save_steps(session: Session) -> None:
    steps = steps_of(session)
    bias = {WORDS.index("a"): 1e6}
    answer = session.generate("aaaaaaaa", max_tokens=20, draft="ngram", logit_bias=bias)
    assert answer.read() == "a" * 20
    assert len(steps) < 8
