"""Runs cases in separate processes, with limits of CPU time and memory.

A process runs one case after the other, because the compiler takes long to start. If a process dies, it is replaced,
and the answer of its case is `Died`. The time limit is on the CPU time of a case, so that a busy machine does not
matter. A case that waits without computing is ended after `PATIENCE` times the limit. The CPU time of a case does not
include that of processes that it starts.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

Given = TypeVar("Given")
Got = TypeVar("Got")

PATIENCE = 20
RETIREMENT = 400
"""Number of cases after which a process is replaced, because the compiler accumulates memory."""


@dataclass(frozen=True)
class Limits:
    """Limits of one case: seconds of CPU time, and bytes of address space of the process."""

    seconds: int = 60
    bytes: int = 8 << 30


@dataclass(frozen=True)
class Died:
    """How the process of a case ended, and the last phase that the case announced."""

    reason: str
    phase: str


Say = Callable[[str], None]
"""A function by which a case announces its phase."""


class _Process(Generic[Given]):
    def __init__(self, work: Callable[[Any, Say], Any], limits: Limits) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work, limits), daemon=True)
        self.process.start()
        theirs.close()
        self.given: Given | None = None
        self.deadline = 0.0
        self.phase = ""
        self.served = 0

    def give(self, case: Given, limits: Limits) -> None:
        self.given, self.phase = case, ""
        self.served += 1
        self.deadline = time.monotonic() + limits.seconds * PATIENCE
        self.pipe.send(case)

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def run(
    cases: Iterable[Given], work: Callable[[Given, Say], Got], limits: Limits, jobs: int = 1
) -> Iterator[tuple[Given, Got | Died]]:
    """Each case with the result of `work(case, say)`, in the order in which they finish."""
    waiting = iter(cases)
    idle: list[_Process[Given]] = []
    busy: list[_Process[Given]] = []
    try:
        while True:
            while len(busy) < jobs and (case := next(waiting, None)) is not None:
                process = idle.pop() if idle else _Process(work, limits)
                process.give(case, limits)
                busy.append(process)
            if not busy:
                return
            for process in _ready(busy):
                answer = _answer(process)
                if answer is None:
                    continue
                busy.remove(process)
                if isinstance(answer, Died) or process.served >= RETIREMENT:
                    process.stop()
                else:
                    idle.append(process)
                assert process.given is not None
                yield process.given, answer
    finally:
        for process in (*idle, *busy):
            process.stop()


def _ready(busy: list[_Process[Given]]) -> list[_Process[Given]]:
    """The processes that sent a message or reached their deadline."""
    first = min(p.deadline for p in busy)
    spoke = wait([p.pipe for p in busy], max(0.0, first - time.monotonic()))
    return [p for p in busy if p.pipe in spoke or p.deadline <= time.monotonic()]


def _answer(process: _Process[Any]) -> Any:
    """The answer of a process; `None` if it only announced a phase."""
    if not process.pipe.poll():
        return Died("waits without end", process.phase)
    try:
        kind, what = process.pipe.recv()
    except (EOFError, ConnectionResetError):
        process.process.join()
        return Died(_reason(process.process.exitcode), process.phase)
    if kind == "phase":
        process.phase = what
        return None
    return what


def _reason(code: int | None) -> str:
    if code == -signal.SIGXCPU:
        return "takes too long"
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _serve(pipe: Connection, work: Callable[[Any, Say], Any], limits: Limits) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (limits.bytes, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime) + 1 + limits.seconds
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        pipe.send(("answer", work(case, lambda phase: pipe.send(("phase", phase)))))


@contextlib.contextmanager
def any_memory() -> Iterator[None]:
    """Lifts the memory limit: programs under the address sanitizer reserve terabytes of addresses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
