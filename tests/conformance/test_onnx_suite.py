"""The ONNX backend suite through the host target: what passes must go on passing, what fails must go on failing."""

from __future__ import annotations

import pytest
from tests.conformance.suite import cases, known_failures


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(cases()))
def test_case(name: str) -> None:
    reason = known_failures().get(name)
    if reason is None:
        cases()[name].run()
        return
    with pytest.raises(Exception):  # noqa: B017, PT011  any failure is the expected one
        cases()[name].run()


def test_known_failures_are_cases() -> None:
    assert set(known_failures()) <= set(cases())
