"""The CPUs that the target embedded makes C for."""

from __future__ import annotations

import pytest

from deploykit.errors import UsageError
from deploykit.targets.base import find_target


def test_cpus_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"no CPU 'cortex-m9': choose one of generic, cortex-m0plus, cortex-m3, "):
        find_target("embedded").variants("cortex-m9")


def test_no_cpu_is_any_cpu() -> None:
    target = find_target("embedded")
    assert target.variants("native") == target.variants("generic")
    assert [variant.device.name for variant in target.variants("cortex-m4")] == ["pairs"]
