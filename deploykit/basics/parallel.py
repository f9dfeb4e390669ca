"""Running slow native code in threads: several items in parallel, and calls that signals can interrupt.

Native code cannot be stopped from within its process, but the caller need not wait for it. `interruptible` runs a
function in a thread while the main thread waits. An exception of a signal handler, such as KeyboardInterrupt, ends the
wait. Then the programs that the function started are killed, and its threads get the exception as soon as they are in
Python code again, so that they can clean up. A thread that does not get there within `MOMENT` is left behind: it
computes on, and an orderly end of the process waits for it. The command line ends its process at once instead (`busy`).
"""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

MOMENT = 0.5
"""Seconds in which an interrupted function may clean up."""

STACK_BYTES = 64 << 20
"""Stack of a thread: passes over a model recurse as deep as its expressions are nested."""

RECURSION_LIMIT = 10_000
"""How deep Python functions may recurse while an interruptible function runs, which `STACK_BYTES` has room for."""


@dataclass(frozen=True)
class _Thread:
    """A daemon thread. `done` is set when its work is finished.

    Waiters wait for `done`, because an interrupted `Thread.join` may report a running thread as ended."""

    ident: int
    done: threading.Event


@dataclass
class _Job:
    """The threads and programs that run for one call of an interruptible function."""

    threads: list[_Thread] = field(default_factory=list)
    programs: set[subprocess.Popen[str]] = field(default_factory=set)
    stopped: bool = False

    def stop(self) -> None:
        """Kill the programs, and make every thread raise KeyboardInterrupt as soon as it runs Python code."""
        self.stopped = True
        for program in list(self.programs):
            _kill(program)
        with _starting:
            for thread in list(self.threads):
                if not thread.done.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
                    )


_job: contextvars.ContextVar[_Job | None] = contextvars.ContextVar("job", default=None)
_left_behind: list[_Thread] = []
_starting = threading.Lock()
"""Held while a thread starts. Until the new thread runs, CPython may give it the exception that is meant for the thread
that starts it, which would then wait for ever."""


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def interruptible(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Wrap `function` so that a signal ends a call of it by the main thread.

    Only the main thread gets signals, so other threads call `function` directly."""

    @functools.wraps(function)
    def called(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **options)
        job = _Job()
        found: list[Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            _job.set(job)
            try:
                found.append(function(*args, **options))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                errors.append(error)

        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(max(usual, RECURSION_LIMIT))
        try:
            _started(work, job).done.wait()
        except BaseException:
            job.stop()
            _left_behind.extend(job.threads)
            for thread in job.threads[:1]:
                thread.done.wait(MOMENT)
            raise
        sys.setrecursionlimit(usual)  # after an interruption it stays: threads that are left behind need it
        if errors:
            raise errors[0]
        return found[0]

    return called


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results of `function` for all items, in their order, computed by threads. The first error ends the work."""
    todo = list(items)
    count = min(processors(), len(todo))
    if count <= 1:
        return [function(item) for item in todo]
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    numbers = iter(range(len(todo)))
    turn = threading.Lock()

    def work() -> None:
        while not errors:
            with turn:
                number = next(numbers, None)
            if number is None:
                return
            try:
                results[number] = function(todo[number])
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                errors[number] = error

    threads = [_started(work, _job.get()) for _ in range(count)]
    try:
        for thread in threads:
            thread.done.wait()
    except BaseException as error:
        errors[len(todo)] = error
        raise
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(todo))]


def _started(work: Callable[[], None], job: _Job | None) -> _Thread:
    """Start a thread that runs `work` as a part of `job`."""
    done = threading.Event()

    def until_done() -> None:
        try:
            work()
        finally:
            try:
                done.set()
            finally:
                done.set()  # again: an asynchronous exception may have interrupted the first call

    thread = threading.Thread(target=contextvars.copy_context().run, args=(until_done,), daemon=True, name="deploykit")
    with _starting:
        usual = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)
    started = _Thread(thread.ident or 0, done)
    if job is not None:
        job.threads.append(started)
    return started


def run_program(call: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program, with these environment variables added; the result holds its output and its exit code. Raises
    `OSError` when it cannot be started."""
    with subprocess.Popen(
        call,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env=None if variables is None else {**os.environ, **variables},
    ) as program:
        try:
            with _watched(program):
                out, err = program.communicate()
        except BaseException:
            _kill(program)
            raise
    return subprocess.CompletedProcess(call, program.returncode, out, err)


@contextmanager
def _watched(program: subprocess.Popen[str]) -> Iterator[None]:
    job = _job.get()
    if job is None:
        yield
        return
    job.programs.add(program)
    if job.stopped:
        raise KeyboardInterrupt
    try:
        yield
    finally:
        job.programs.discard(program)


def _kill(program: subprocess.Popen[str]) -> None:
    """Kill a program and the programs that it started."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def busy() -> bool:
    """Whether a thread of an interrupted function still runs native code."""
    return not all(thread.done.is_set() for thread in _left_behind)


@atexit.register
def _wait() -> None:
    """Wait for the threads left behind: their native code uses what an orderly end of the process destroys."""
    for thread in _left_behind:
        thread.done.wait()
