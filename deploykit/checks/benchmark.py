"""How long a run takes, and how that compares with a peer on the same inputs.

The sides take turns, so that all see the same state of the machine; medians are compared. A turn is several runs. Its
first runs do not count: their data is not in the caches, and they share the cores with threads of the other side that
still wait for work. ONNX Runtime's threads do so for some 40 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from deploykit.checks import reference as references
from deploykit.checks.crowds import Crowded, crowded
from deploykit.checks.padded import padded_form
from deploykit.checks.profiling import Profile
from deploykit.checks.profiling import profile as profiled
from deploykit.checks.samples import random_for_others, sample_inputs
from deploykit.checks.sources import Input, read_inputs
from deploykit.errors import UsageError
from deploykit.sessions.session import open as open_artifact

_SETTLE_SECONDS = 0.06
_TURN_SECONDS = 0.1
_FEWEST_RUNS = 5
_WARM_UP_RUNS = 2


@dataclass(frozen=True)
class Timing:
    """Seconds per run: the median, the fastest, and the 10 % and 90 % quantiles of `runs` runs."""

    name: str
    runs: int
    median: float
    fastest: float
    p10: float
    p90: float


@dataclass(frozen=True)
class Benchmark:
    """The times of an artifact and of a peer. `sizes` are those of the dims in these runs. `ratio` is our median
    divided by the peer's: below 1 we are faster."""

    ours: Timing
    peer: Timing | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    profile: Profile | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.ours.median / self.peer.median


def bench(
    artifact: str | Path,
    *,
    at: Mapping[str, int] | None = None,
    inputs: Mapping[str, Input] | None = None,
    against: str | None = None,
    model: str | Path | None = None,
    threads: int = 1,
    device: str | None = None,
    seconds: float = 3.0,
    profile: bool = False,
) -> Benchmark:
    """Time the artifact in a folder for about `seconds`, in turn with a peer if `against` names one.

    `at` gives the sizes of dims by name; other dims have the sizes of the arrays in `inputs`, else their minimum.
    `inputs` gives values by name, as arrays or as texts in the forms of `deploykit.checks.sources`; other inputs are
    random. `against` is one of `deploykit.checks.reference.REFERENCES`. The peer runs `model`, by default the file that
    the artifact was built from, if it is found in this folder or beside the artifact; if that model pads what is ragged
    in the artifact, it runs on padded inputs. `threads` is the number for each
    side, `device` that of `deploykit.open`. With `profile` the artifact runs for as many seconds again, to find where
    the time goes.

    Raises what `deploykit.open` and a run raise, and:
        UsageError: a dim, an input or the peer is unknown, or the model is not found.
        ToolchainError: the peer is not installed, or a profile needs a C compiler and there is none.
        UnsupportedModelError: the peer cannot load the model.
    """
    with _sides(artifact, at, inputs, against, model, threads, device) as (sides, arrays, sizes):
        ours, *peers = in_turn(sides, seconds)
    found = profiled(artifact, arrays, sizes, threads=threads, device=device, seconds=seconds) if profile else None
    return Benchmark(ours, peers[0] if peers else None, sizes, found)


def bench_callers(
    artifact: str | Path,
    callers: int,
    *,
    at: Mapping[str, int] | None = None,
    inputs: Mapping[str, Input] | None = None,
    against: str | None = None,
    model: str | Path | None = None,
    threads: int = 1,
    device: str | None = None,
    seconds: float = 3.0,
) -> Crowded:
    """Call one session of the artifact from `callers` threads that do nothing else, in turn with a peer's session.

    The other arguments, and what it raises, are those of `bench`."""
    if callers < 1:
        raise UsageError(f"callers must be at least 1, found {callers}")
    with _sides(artifact, at, inputs, against, model, threads, device) as (sides, _, sizes):
        return Crowded(callers, crowded(sides, callers, seconds), sizes)


@contextmanager
def _sides(
    artifact: str | Path,
    at: Mapping[str, int] | None,
    inputs: Mapping[str, Input] | None,
    against: str | None,
    model: str | Path | None,
    threads: int,
    device: str | None,
) -> Iterator[tuple[dict[str, Callable[[], object]], dict[str, Any], Mapping[str, int]]]:
    """A call of a session and one of its peer, our inputs, and the sizes of dims."""
    with open_artifact(artifact, threads=threads, device=device) as session:
        sources = random_for_others(session.manifest, read_inputs(inputs or {}))
        arrays, sizes = sample_inputs(session.manifest, sources, at or {})
        sides: dict[str, Callable[[], object]] = {"deploykit": lambda: session.run(arrays)}
        if against is not None:
            path = references.model_of(Path(artifact), session.manifest, model)
            runner = references.load(path, against, threads, timed=True)
            padded = padded_form(session.manifest, path)
            theirs = padded.inputs(arrays) if padded else arrays
            sides[against] = lambda: runner(theirs)
        yield sides, arrays, sizes


def in_turn(sides: Mapping[str, Callable[[], object]], seconds: float) -> list[Timing]:
    """Time the sides in turn, for about `seconds` in total."""
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
    """Run one turn; returns the seconds of each run that counts."""
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
