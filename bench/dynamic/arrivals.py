"""`python -m bench.dynamic.arrivals`: instances that arrive one by one, in three ways.

    full     wait until a batch of N is full, run it, and so on
    waiting  when a run ends, run all that have arrived meanwhile, at most N at a time
    submit   each joins the next flush of those that run, at most N at a time (`session.submit`)

Instances arrive at random (a Poisson process) at a part of the rate that full batches reach. The time between calls is
not waited but counted, so a line takes as long as its calls. Instances are encoded before, as callers in C and
JavaScript give them. `latency` is from the arrival of an instance to its result, its mean and the value that 95 % keep;
`launches` are those of cells for each instance. `busy` is the part of the time in which calls ran: above 100 % at the
given rate, a way cannot keep up. Results are compared with those of one batch; exit code 1 if they differ by more than
1e-4.

    python -m bench.dynamic.arrivals [--model NAME] [--hidden N] [--batch N] [--load PART] [--count N] [--clock CLOCK]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import deploykit
from bench.dynamic.cases import CASES, flat, prepare
from bench.dynamic.sides import build, error
from bench.ragged.timing import CLOCKS
from deploykit.sessions.instances import Instances
from deploykit.sessions.session import Session

TOLERANCE = 1e-4


@dataclass
class Times:
    """What became of instances that arrived at the times `arrivals`. `now` counts seconds."""

    session: Session
    instances: Sequence[Any]
    arrivals: np.ndarray
    clock: Callable[[], float]
    now: float = 0.0
    busy: float = 0.0
    launches: int = 0
    next: int = 0
    finished: dict[int, float] = field(default_factory=dict)
    results: dict[int, Any] = field(default_factory=dict)

    def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call, and count its time."""
        start = self.clock()
        result = call(*arguments)
        self.busy += self.clock() - start
        self.now += self.clock() - start
        return result

    def arrived(self, most: int, least: int = 1) -> list[int]:
        """The next instances, at most so many. Waits until `least` of them are there, unless fewer are left."""
        least = min(least, len(self.instances) - self.next)
        if least > 0:
            self.now = max(self.now, self.arrivals[self.next + least - 1])
        end = min(int(np.searchsorted(self.arrivals, self.now, side="right")), self.next + most)
        numbers = list(range(self.next, end))
        self.next = end
        return numbers

    def encoded(self, numbers: Sequence[int]) -> dict[str, np.ndarray]:
        """The inputs of a run; this takes no time."""
        return self.runner.inputs([self.instances[number] for number in numbers])

    def note(self, numbers: Sequence[int], outputs: Sequence[np.ndarray], launches: np.ndarray) -> None:
        """These instances have finished."""
        self.launches += int(launches.sum())
        for number, result in zip(numbers, self.runner.results(outputs, len(numbers)), strict=True):
            self.finished[number], self.results[number] = self.now, result

    @property
    def runner(self) -> Instances:
        found = self.session._instances  # noqa: SLF001  as above
        assert found is not None
        return found

    def latencies(self) -> np.ndarray:
        ends = np.array([self.finished[number] for number in range(len(self.instances))])
        found: np.ndarray = ends - self.arrivals
        return found


def in_batches(times: Times, batch: int, least: int) -> None:
    while times.next < len(times.instances):
        numbers = times.arrived(batch, least)
        inputs = times.encoded(numbers)
        *outputs, launches, _ = times.run(times.session.run, inputs).values()
        times.note(numbers, outputs, launches)


def submitted(times: Times, batch: int) -> None:
    stream = times.session._engine.stream()  # noqa: SLF001  encoded instances have no other way in
    running: dict[int, int] = {}
    while times.next < len(times.instances) or running:
        most = batch - len(running) if stream.has_room else 0
        for number in times.arrived(most, least=0 if running else 1):
            inputs = list(times.encoded([number]).values())
            running[times.run(stream.submit, inputs)] = number
        times.run(stream.step)
        tickets, outputs = times.run(stream.take)
        if tickets:
            times.note([running.pop(ticket) for ticket in tickets], outputs[:-2], outputs[-2])
    stream.close()


WAYS: dict[str, Callable[[Times, int], None]] = {
    "full": lambda times, batch: in_batches(times, batch, batch),
    "waiting": lambda times, batch: in_batches(times, batch, 1),
    "submit": submitted,
}


def lines(given: argparse.Namespace) -> Iterator[str]:
    prepared = prepare(CASES[given.model], given.hidden, given.output)
    session = deploykit.open(build(prepared, given.output))
    instances = prepared.instances(prepared.structures(given.count))
    expected = flat(session(instances))
    clock = CLOCKS[given.clock]

    def timed(way: str, arrivals: np.ndarray) -> Times:
        times = Times(session, instances, arrivals, clock)
        WAYS[way](times, given.batch)
        found = flat([times.results[number] for number in range(given.count)])
        if not error(found, expected) <= TOLERANCE:
            sys.exit(f"{way}: the results differ by {error(found, expected):.1e}")
        return times

    at_once = np.zeros(given.count)
    most = {way: min(timed(way, at_once).busy for _ in range(3)) for way in WAYS}
    rate = given.load * given.count / most["full"]
    gaps = np.random.default_rng(0).exponential(1 / rate, given.count)
    yield "| way | all at once, 1/s | launches | at a rate of | busy | latency, mean | 95 % |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for way, seconds in most.items():
        times = timed(way, np.cumsum(gaps))
        waits = times.latencies() * 1e3
        yield (
            f"| {way} | {given.count / seconds:.0f} | {timed(way, at_once).launches / given.count:.2f} | {rate:.0f}/s "
            f"| {times.busy / times.now:.0%} | {waits.mean():.2f} ms | {np.percentile(waits, 95):.2f} ms |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.dynamic.arrivals", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add: Any = parser.add_argument
    add("--model", choices=tuple(CASES), default="earlyexit")
    add("--hidden", type=int, default=256, metavar="N")
    add("--batch", type=int, default=32, metavar="N")
    add("--load", type=float, default=0.5, metavar="PART")
    add("--count", type=int, default=2000, metavar="N")
    add("--clock", choices=tuple(CLOCKS), default="cpu")
    add("--output", type=Path, default=Path("build/bench-dynamic"), metavar="DIR")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for line in lines(given):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
