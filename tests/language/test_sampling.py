"""The choice of tokens, next to the same steps written with NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deploykit.errors import DataError, UsageError
from deploykit.language.sampling import Sampler, log_sum
from deploykit.options.generation import Sampling

WORDS = 40


def scores_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, WORDS).astype(np.float32)


def possible(scores: np.ndarray, settings: Sampling) -> dict[int, float]:
    """The tokens that may be chosen, with their probabilities."""
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    if settings.top_k:
        order = order[: settings.top_k]

    def probabilities(temperature: float = 1.0) -> np.ndarray:
        kept = scores[order].astype(np.float64) / temperature
        weights = np.exp(kept - kept.max())
        return np.asarray(weights / weights.sum())

    if settings.typical_p < 1:
        information = -np.log(probabilities())
        distance = np.abs(information - (probabilities() * information).sum())
        nearest = np.argsort(distance, kind="stable")
        count = int(np.searchsorted(np.cumsum(probabilities()[nearest]), settings.typical_p)) + 1
        order = sorted((order[i] for i in nearest[:count]), key=lambda token: (-scores[token], token))
    if settings.top_p < 1:
        order = order[: int(np.searchsorted(np.cumsum(probabilities()), settings.top_p)) + 1]
    if settings.min_p:
        found = probabilities()
        order = [token for token, p in zip(order, found, strict=True) if p >= settings.min_p * found.max()]
    return dict(zip(order, probabilities(settings.temperature), strict=True))


SETTINGS = {
    "all": Sampling(temperature=1.0),
    "warm": Sampling(temperature=2.5),
    "cold": Sampling(temperature=0.3),
    "top-k": Sampling(temperature=1.0, top_k=7),
    "top-k-of-most": Sampling(temperature=1.5, top_k=33),
    "top-p": Sampling(temperature=1.0, top_p=0.8),
    "min-p": Sampling(temperature=1.0, min_p=0.1),
    "typical": Sampling(temperature=1.0, typical_p=0.7),
    "several": Sampling(temperature=1.4, top_k=20, typical_p=0.95, top_p=0.9, min_p=0.02),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_tokens_are_drawn_by_their_probabilities(name: str) -> None:
    settings, count = SETTINGS[name], 4000
    for seed in range(3):
        scores = scores_of(seed)
        expected = possible(scores, settings)
        sampler = Sampler(settings, WORDS)
        drawn = [sampler.choose(scores, [])[0] for _ in range(count)]
        assert set(drawn) <= expected.keys()
        for token, p in expected.items():
            spread = 5 * math.sqrt(p * (1 - p) / count) + 1e-9
            assert abs(drawn.count(token) / count - p) <= spread


def test_the_same_seed_gives_the_same_tokens() -> None:
    def drawn(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed), WORDS)
        return [sampler.choose(scores_of(i), [])[0] for i in range(50)]

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)
    assert drawn((1 << 64) - 1) != drawn(0)


def test_penalties_and_biases() -> None:
    scores = np.zeros(WORDS, np.float32)
    scores[:3] = 2.0, 1.5, -0.5

    def best(earlier: list[int], **settings: float) -> int:
        return Sampler(Sampling(**settings), WORDS).choose(scores, earlier)[0]  # type: ignore[arg-type]

    assert best([]) == 0
    assert best([0], repetition_penalty=2.0) == 1
    assert best([0, 1], presence_penalty=1.9) == 0
    assert best([0, 1], presence_penalty=2.1) == 3
    assert best([0, 0], frequency_penalty=0.3) == 1
    assert best([0], frequency_penalty=0.3) == 0
    assert best([0, *[9] * 8], repetition_penalty=2.0, penalty_last=8) == 0
    assert best([0, *[9] * 8], repetition_penalty=2.0, penalty_last=-1) == 1
    assert Sampler(Sampling(logit_bias={0: -math.inf, 7: 1.6}), WORDS).choose(scores, [])[0] == 7


def test_the_first_of_equal_scores_is_taken() -> None:
    assert Sampler(Sampling(), WORDS).choose(np.zeros(WORDS, np.float32), [])[0] == 0


def test_logarithms_of_probabilities() -> None:
    scores = scores_of(1)
    token, logprob = Sampler(Sampling(), WORDS).choose(scores, [])
    wide = scores.astype(np.float64)
    expected = wide[token] - math.log(np.exp(wide - wide.max()).sum()) - wide.max()
    assert logprob == pytest.approx(expected, abs=1e-6)
    assert log_sum(scores) == pytest.approx(wide[token] - expected, abs=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_no_numbers(value: float) -> None:
    scores = scores_of(0)
    scores[9] = value
    with pytest.raises(DataError, match="no token is possible"):
        Sampler(Sampling(), WORDS).choose(scores, [])


def test_no_token_is_possible() -> None:
    with pytest.raises(DataError, match="no token is possible"):
        Sampler(Sampling(temperature=1.0), WORDS).choose(np.full(WORDS, -math.inf, np.float32), [])


def test_one_token_is_possible() -> None:
    scores = np.full(WORDS, -math.inf, np.float32)
    scores[11] = -5
    for name in SETTINGS:
        assert Sampler(SETTINGS[name], WORDS).choose(scores, [])[0] == 11, name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_k": 2.5}, "top_k must be an integer"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": math.nan}, "min_p is nan"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        ({"seed": 1 << 64}, "seed must be an integer of 64 bits"),
        ({"seed": -1}, "seed must be an integer of 64 bits"),
        ({"logit_bias": {WORDS: 1.0}}, f"logit_bias has the token {WORDS}"),
        ({"logit_bias": {1: math.nan}}, "logit_bias is"),
    ],
)
def test_settings_that_are_not_possible(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sampler(Sampling(**settings), WORDS)  # type: ignore[arg-type]
