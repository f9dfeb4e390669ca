"""How long a run takes, and how that compares with a peer on the same inputs.

The sides take turns, so that all see the same state of the machine; medians are compared. A turn is several runs, and
the first of them do not count: they pay for what the others left in the caches, and share the cores with threads of
theirs that still wait for work, which ONNX Runtime's do for some 40 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from deploykit.checks import reference as references
from deploykit.session import Session

_SETTLE_SECONDS = 0.06
_TURN_SECONDS = 0.1
_FEWEST_RUNS = 5
_WARM_UP_RUNS = 2


@dataclass(frozen=True)
class Timing:
    """Seconds a run: of `runs` runs the median, the fastest, and the 10 % and 90 % quantiles."""

    name: str
    runs: int
    median: float
    fastest: float
    p10: float
    p90: float


@dataclass(frozen=True)
class Benchmark:
    """`ratio`: our median over the peer's; below 1 we are faster."""

    ours: Timing
    peer: Timing | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.ours.median / self.peer.median


def benchmark(
    session: Session,
    inputs: Mapping[str, Any],
    *,
    against: str | None = None,
    model: str | Path | None = None,
    threads: int = 1,
    seconds: float = 3.0,
) -> Benchmark:
    """Time a session for about `seconds`, next to the reference `against` running `model` where one is named.

    Raises what `deploykit.checks.reference.load` raises.
    """
    sides: dict[str, Callable[[], object]] = {"deploykit": lambda: session.run(inputs)}
    if against is not None and model is not None:
        runner = references.load(model, against, threads)
        sides[against] = lambda: runner(inputs)
    ours, *peers = in_turn(sides, seconds)
    return Benchmark(ours, peers[0] if peers else None)


def in_turn(sides: Mapping[str, Callable[[], object]], seconds: float) -> list[Timing]:
    """Time the sides for about `seconds` in all, by turns."""
    for side in sides.values():
        for _ in range(_WARM_UP_RUNS):
            side()
    samples: dict[str, list[float]] = {name: [] for name in sides}
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or any(len(times) < _FEWEST_RUNS for times in samples.values()):
        for name, side in sides.items():
            samples[name] += _turn(side)
    return [_timing(name, times) for name, times in samples.items()]


def _turn(side: Callable[[], object]) -> list[float]:
    """Seconds of each run of a turn that counts."""
    settled = time.perf_counter() + _SETTLE_SECONDS
    side()
    while time.perf_counter() < settled:
        side()
    times: list[float] = []
    while not times or sum(times) < _TURN_SECONDS:
        start = time.perf_counter()
        side()
        times.append(time.perf_counter() - start)
    return times


def _timing(name: str, times: list[float]) -> Timing:
    cuts = quantiles(times, n=10, method="inclusive")
    return Timing(name, len(times), median(times), min(times), cuts[0], cuts[-1])
