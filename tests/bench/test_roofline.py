"""Kernels against the limits of the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peak import Peak, measure
from bench.roofline import draw, of_roof
from deploykit.checks.profiling import Profile, Step, Work

PEAK = Peak(threads=1, flops=100e9, read=10e9, triad=10e9)


@pytest.mark.parametrize(
    ("flops", "traffic", "seconds", "expected"),
    [(50_000_000_000, 10, 1.0, 0.5), (10, 10_000_000_000, 2.0, 0.5), (0, 20_000_000_000, 1.0, 2.0), (None, 1, 1, None)],
)
def test_the_roof_is_arithmetic_or_memory(
    flops: int | None, traffic: int, seconds: float, expected: float | None
) -> None:
    assert of_roof(Work("kernel", 1, seconds, flops, traffic), PEAK) == expected


def test_a_profile_is_drawn(tmp_path: Path) -> None:
    steps = [Step(f"kernel_{i}", 1, 1e-3 * (i + 1), 10**6 * i, 10**5, i, "y float32[n]") for i in range(14)]
    draw(Profile(tuple(steps), 3), PEAK, "model n=3", tmp_path / "roof.png")
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_limits_are_measured() -> None:
    peak = measure(1)
    assert peak.flops > 1e9
    assert min(peak.read, peak.triad) > 1e8
