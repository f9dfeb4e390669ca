"""How long a run takes, and how that compares with a peer on the same inputs.

Runs of the two sides alternate, so that both see the same state of the machine; medians are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from deploykit import reference as references
from deploykit.session import Session

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
    inputs: Mapping[str, np.ndarray],
    *,
    against: str | None = None,
    model: str | Path | None = None,
    threads: int = 1,
    seconds: float = 3.0,
) -> Benchmark:
    """Time a session for about `seconds`, next to the reference `against` running `model` where one is named.

    Raises what `deploykit.reference.load` raises.
    """
    sides: dict[str, Callable[[], object]] = {"deploykit": lambda: session.run(inputs)}
    if against is not None and model is not None:
        runner = references.load(model, against, threads)
        sides[against] = lambda: runner(inputs)
    samples = _interleaved(list(sides.values()), seconds)
    ours, *peers = (_timing(name, times) for name, times in zip(sides, samples, strict=True))
    return Benchmark(ours, peers[0] if peers else None)


def _interleaved(sides: list[Callable[[], object]], seconds: float) -> list[list[float]]:
    """Seconds of each run of each side."""
    for _ in range(_WARM_UP_RUNS):
        for side in sides:
            side()
    samples: list[list[float]] = [[] for _ in sides]
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or len(samples[0]) < _FEWEST_RUNS:
        for side, times in zip(sides, samples, strict=True):
            start = time.perf_counter()
            side()
            times.append(time.perf_counter() - start)
    return samples


def _timing(name: str, times: list[float]) -> Timing:
    cuts = quantiles(times, n=10, method="inclusive")
    return Timing(name, len(times), median(times), min(times), cuts[0], cuts[-1])
