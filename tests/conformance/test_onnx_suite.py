"""The ONNX backend suite on every runtime: cases that pass must keep passing, and known failures must keep failing.

`make test` runs a part of the suite, another one for each commit.
"""

from __future__ import annotations

import pytest

from tests.conformance import dynamic, operators_page
from tests.conformance.suite import cases, dynamic_failures, known_failures
from tests.runtimes import HOST, Runtime

SUPPORTED = sorted(n for n in set(cases()) - set(known_failures()) if cases()[n].kind != "real")


@pytest.mark.slow
@pytest.mark.sampled(part=80)
@pytest.mark.parametrize("name", SUPPORTED)
def test_case(name: str, runtime: Runtime) -> None:
    with runtime.as_backend():
        cases()[name].run()


@pytest.mark.slow
@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("name", sorted(set(cases()) - set(SUPPORTED)))
def test_case_that_is_refused_or_large(name: str) -> None:
    if name not in known_failures():
        cases()[name].run()
        return
    with pytest.raises(Exception):  # noqa: B017, PT011  any failure is the expected one
        cases()[name].run()


@pytest.mark.slow
@pytest.mark.sampled(part=300)
@pytest.mark.parametrize("name", SUPPORTED)
def test_dynamic_variant(name: str, runtime: Runtime) -> None:
    reason = dynamic_failures().get(name)
    if reason and runtime is not HOST:
        pytest.skip(reason)
    try:
        with runtime.as_backend():
            agreed = dynamic.check(cases()[name], bounded=runtime.bounded)
    except dynamic.NoVariant as none:
        pytest.skip(str(none))
    except Exception:
        if reason is None:
            raise
        return
    assert reason is None, "a known failure passes: take it off the list"
    assert agreed >= 1


def test_known_failures_are_cases() -> None:
    assert set(known_failures()) | set(dynamic_failures()) <= set(cases())


def test_operators_page_is_current() -> None:
    assert operators_page.PAGE.read_text() == operators_page.page()
