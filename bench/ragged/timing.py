"""Times runs of very different lengths, from a millisecond to minutes, in turn.

As in `deploykit.checks.benchmark`, the sides take turns, and threads of the side before get time to stop. But a run
that is long needs no warm-up, and few repetitions. `CLOCKS` are the clocks to choose from: that of the wall, and the
time that this process computes, which is steadier for one thread on a machine that others use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles

from deploykit.checks.benchmark import Timing

CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
SETTLE_SECONDS = 0.06
TURN_SECONDS = 0.1
LONG_SECONDS = 0.3
"""A run that takes as long as this is not repeated within a turn, and not warmed up."""
FEWEST_TURNS = 3


def in_turn(sides: Mapping[str, Callable[[], object]], seconds: float, clock: str = "wall") -> dict[str, Timing]:
    """Time the sides for about `seconds` in total, in at least `FEWEST_TURNS` turns each."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    expected = {name: once(side) for name, side in sides.items()}
    deadline = time.perf_counter() + seconds
    turns = 0
    while turns < FEWEST_TURNS or time.perf_counter() < deadline:
        for name, side in sides.items():
            samples[name] += _turn(side, expected[name], clock)
        turns += 1
    return {name: _timing(name, times) for name, times in samples.items()}


def once(side: Callable[[], object], clock: str = "wall") -> float:
    """The seconds of a single run."""
    read = CLOCKS[clock]
    start = read()
    side()
    return read() - start


def _turn(side: Callable[[], object], expected: float, clock: str) -> list[float]:
    settled = time.perf_counter() + SETTLE_SECONDS
    if expected < LONG_SECONDS:
        while time.perf_counter() < settled:
            side()
    else:
        time.sleep(SETTLE_SECONDS)
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() < began + TURN_SECONDS:
        times.append(once(side, clock))
    return times


def _timing(name: str, times: list[float]) -> Timing:
    cuts = quantiles(times, n=10, method="inclusive")
    return Timing(name, len(times), median(times), min(times), cuts[0], cuts[-1])
