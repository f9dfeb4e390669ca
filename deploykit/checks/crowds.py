"""How a session serves many threads at a time, next to a peer's session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

_TURN_SECONDS = 0.3
_FEWEST_TURNS = 3


@dataclass(frozen=True)
class Load:
    """What a side does: `calls` in all, how many a second, and the seconds of a call, their median and their 95 %
    quantile. Calls per second are the median of several turns."""

    name: str
    calls: int
    per_second: float
    median: float
    p95: float


@dataclass(frozen=True)
class Crowded:
    """The loads of an artifact and of a peer, with so many callers. `ratio` is our calls per second divided by the
    peer's: above 1 we are faster."""

    callers: int
    loads: tuple[Load, ...]
    sizes: Mapping[str, int]

    @property
    def ratio(self) -> float | None:
        ours, *peers = self.loads
        return ours.per_second / peers[0].per_second if peers else None


def crowded(sides: Mapping[str, Callable[[], object]], callers: int, seconds: float) -> tuple[Load, ...]:
    """Call each side from `callers` threads, the sides in turn, for about `seconds` in total."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        _turn(side, callers, 0)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rates[next(iter(rates))]) < _FEWEST_TURNS:
        for name, side in sides.items():
            begun = time.perf_counter()
            found = _turn(side, callers, min(_TURN_SECONDS, seconds))
            rates[name].append(len(found) / (time.perf_counter() - begun))
            times[name] += found
    return tuple(
        Load(name, len(found), median(rates[name]), median(found), float(np.percentile(found, 95)))
        for name, found in times.items()
    )


def _turn(side: Callable[[], object], callers: int, seconds: float) -> Sequence[float]:
    """The seconds of the calls of all threads; each makes one at least. Raises the first error."""
    times: list[float] = []
    errors: list[BaseException] = []
    begin = threading.Barrier(callers)

    def work() -> None:
        own: list[float] = []
        begin.wait()
        try:
            end = time.perf_counter() + seconds
            while not own or time.perf_counter() < end:
                start = time.perf_counter()
                side()
                own.append(time.perf_counter() - start)
        except BaseException as error:  # noqa: BLE001  it is raised below
            errors.append(error)
        times.extend(own)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return times
