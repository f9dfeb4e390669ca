"""Each model, compared with itself in Python, for each policy and for several numbers of instances."""

from __future__ import annotations

import pytest

import deploykit
from deploykit.dynamic.policies import POLICIES
from tests.dynamic import models
from tests.dynamic.harness import Built, assert_close, assert_same_bits, eager
from tests.dynamic.instances import MAKERS, instances

TENSORS = ("TwoTypes", "Graph", "EarlyExit", "Generator", "Search", "Operators", "Regions")
"""The models whose instances hold tensors."""

every_model = pytest.mark.parametrize("name", MAKERS)


@pytest.mark.sampled(part=8)
@every_model
@pytest.mark.parametrize("target", ["host", "embedded"])
def test_results(name: str, target: str, built: Built) -> None:
    model = getattr(models, name)()
    with deploykit.open(built(name, target, elements=name in TENSORS)) as session:
        for count in (0, 1, 17):
            given = instances(name, count, seed=count)
            expected = eager(model, given)
            for policy in POLICIES:
                session.policy = policy
                assert_close(session(given), expected)


@pytest.mark.sampled(part=6)
@every_model
def test_exact_results_have_the_same_bits_for_every_policy(name: str, built: Built) -> None:
    given = instances(name, 19, seed=5)
    with deploykit.open(built(name, exact=True)) as session:
        session.policy = "alone"
        expected = session(given)
        assert_close(expected, eager(getattr(models, name)(), given))
        for policy in POLICIES:
            session.policy = policy
            assert_same_bits(session(given), expected)
            for count in (1, 6):
                assert_same_bits(session(given[:count]), expected[:count])


@every_model
@pytest.mark.slow
@pytest.mark.sampled(part=12)
def test_sanitized(name: str, built: Built) -> None:
    model = getattr(models, name)()
    with deploykit.open(built(name), sanitize=True) as session:
        for count in (0, 5, 30):
            given = instances(name, count, seed=count + 100)
            for policy in POLICIES:
                session.policy = policy
                assert_close(session(given), eager(model, given))


def test_batches_are_shared_between_instances(built: Built) -> None:
    given = instances("TreeLSTM", 20)
    with deploykit.open(built("TreeLSTM")) as session:
        alone, together = [], []
        for policy, found in (("alone", alone), ("depth", together)):
            session.policy = policy
            session(given)
            found += [count for _, count in session.launches]
    assert sum(together) < sum(alone) / 5
