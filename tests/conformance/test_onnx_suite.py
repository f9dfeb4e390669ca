"""The ONNX backend suite on every platform: what passes must go on passing, what fails must go on failing.

`make test` runs a part of it, another one for each commit.
"""

from __future__ import annotations

import contextlib
import shutil

import pytest

from deploykit import onnx_backend
from deploykit.engines.web.chromium import find_chromium
from tests.conformance import dynamic, operators_page, web
from tests.conformance.suite import DEVICE_FAILURES, cases, device_failures, dynamic_failures, known_failures

SUPPORTED = sorted(n for n in set(cases()) - set(known_failures()) if cases()[n].kind != "real")


@pytest.mark.slow
@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("name", sorted(cases()))
def test_case(name: str) -> None:
    reason = known_failures().get(name)
    if reason is None:
        cases()[name].run()
        return
    with pytest.raises(Exception):  # noqa: B017, PT011  any failure is the expected one
        cases()[name].run()


@pytest.mark.slow
@pytest.mark.sampled(part=32)
@pytest.mark.parametrize("name", SUPPORTED)
def test_embedded_case_under_sanitizers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_backend, "TARGET", "embedded")
    monkeypatch.setattr(onnx_backend, "SANITIZE", True)
    cases()[name].run()


@pytest.mark.slow
@pytest.mark.sampled(part=30)
@pytest.mark.parametrize("name", SUPPORTED)
def test_dynamic_variant(name: str) -> None:
    reason = dynamic_failures().get(name)
    try:
        agreed = dynamic.check(cases()[name])
    except dynamic.NoVariant as none:
        pytest.skip(str(none))
    except Exception:
        if reason is None:
            raise
        return
    assert reason is None, "a known failure passes: take it off the list"
    assert agreed >= 1


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
@pytest.mark.sampled(part=16)
@pytest.mark.parametrize("name", SUPPORTED)
def test_case_as_webassembly_in_node(name: str) -> None:
    with web.on("wasm"), _failing_where(name in device_failures("wasm")):
        cases()[name].run()


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
@pytest.mark.sampled(part=32)
@pytest.mark.parametrize("name", SUPPORTED)
def test_case_as_shaders_in_chromium(name: str) -> None:
    """With its dynamic variants."""
    with web.on("webgpu"), _failing_where(name in device_failures("webgpu")):
        cases()[name].run()
        if name not in dynamic_failures():
            with contextlib.suppress(dynamic.NoVariant):
                dynamic.check(cases()[name])


def _failing_where(known: bool) -> contextlib.AbstractContextManager[object]:
    """What passes only when its body fails, where that is known of it."""
    return pytest.raises(Exception) if known else contextlib.nullcontext()  # noqa: PT011


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="needs qemu-user")
@pytest.mark.sampled(part=160)
@pytest.mark.parametrize("name", SUPPORTED)
def test_arm64_case_under_emulation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_backend, "CPU", "armv8.2-a+dotprod")
    cases()[name].run()


def test_known_failures_are_cases() -> None:
    assert set(known_failures()) | set(dynamic_failures()) <= set(cases())
    for device in DEVICE_FAILURES:
        assert set(device_failures(device)) <= set(cases()) - set(known_failures())


def test_operators_page_is_current() -> None:
    assert operators_page.PAGE.read_text() == operators_page.page()
