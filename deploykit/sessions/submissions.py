"""Instances of a dynamic model that are submitted one by one, and join while others run: continuous batching.

    handles = [session.submit(tree) for tree in trees]
    for handle in session.finished():
        print(handle.result())

Nothing runs in the background: `step`, `finished` and `Handle.result` do the work. Threads share one stream: one that
waits for a result runs the instances of all, and the others sleep until theirs is done, or until it leaves the work to
one of them. Instances wait here until the engine has room for them. When its memory does not suffice, all that run
begin again, in more memory, or fewer at a time; results that are there stay.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

from deploykit.basics.dtypes import LogicalDtype, from_storage
from deploykit.engines import MemoryFull, StreamEngine
from deploykit.engines.lanes import ClosedError
from deploykit.errors import DeploykitError
from deploykit.sessions.instances import Instances

_WIDE = 256
"""Where fewer instances than this fill the memory, it is enlarged."""


class Handle:
    """An instance that was submitted. The methods are those of `concurrent.futures.Future`, for any thread; `await`
    gives the result, too, and cancels the instance where the task is cancelled."""

    def __init__(self, submissions: Submissions, instance: Any) -> None:
        self.inputs = submissions.instances.inputs([instance])
        self._submissions = submissions
        self._done = False
        self._result: Any = None
        self._error: Exception | None = None

    def done(self) -> bool:
        """Whether there is a result or an error, or the instance was cancelled."""
        return self._done

    def cancelled(self) -> bool:
        return isinstance(self._error, CancelledError)

    def cancel(self) -> bool:
        """Remove the instance, unless it is done; returns whether it is cancelled now."""
        self._submissions.remove(self)
        return self.cancelled()

    def exception(self) -> Exception | None:
        """The error of the instance, if it has one. Runs all instances until this one is done."""
        self._submissions.wait(self)
        return self._error

    def result(self) -> Any:
        """What `main` returns for the instance. Runs all instances until this one is done. Raises its error,
        `CancelledError` if it was cancelled."""
        error = self.exception()
        if error is not None:
            raise error
        return self._result

    def __await__(self) -> Generator[Any, None, Any]:
        return self._submissions.awaited(self).__await__()

    def finish(self, result: Any = None, error: Exception | None = None) -> None:
        """The instance is done."""
        self._result, self._error = result, error
        self._done = True


class Submissions:
    """The instances of a session that were submitted. Those that run are known to the engine by tickets.

    One thread at a time drives: it alone uses the engine, without the lock while it computes."""

    def __init__(
        self,
        instances: Instances,
        engine: StreamEngine,
        outputs: Sequence[LogicalDtype],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        """`outputs` are the dtypes of the outputs of a run; `later` calls a function in another thread."""
        self.instances = instances
        self._dtypes = outputs
        self._engine = engine
        self._later = later
        self._lock = threading.Lock()
        self._driven = False
        self._closed = False
        self._asleep: dict[Handle | None, list[threading.Lock]] = {}
        """The gates of sleeping threads, by the handle that they wait for; None: for any, or for the end of a drive."""
        self._awaited: dict[Handle, list[Callable[[], None]]] = {}
        """What tells tasks that a handle is done."""
        self._serving = False
        self._most = engine.most
        self._waiting: deque[Handle] = deque()
        self._running: dict[int, Handle] = {}
        self._unseen: dict[Handle, None] = {}
        self._dropped: list[int] = []
        """Tickets of instances that were cancelled while a thread drove."""
        self._joined = 0
        """Since no instance ran."""
        self._record = instances.begin()

    def submit(self, instance: Any) -> Handle:
        """Raises `ShapeError` and `DataError` for an instance that does not fit, and `ClosedError`."""
        handle = Handle(self, instance)
        with self._lock:
            if self._closed:
                raise ClosedError
            if self._waiting or self._running:
                self.instances.follow(self._record)
            else:
                self._record = self.instances.begin()
            self._waiting.append(handle)
        return handle

    def step(self) -> list[Handle]:
        """Run to the next flush. Returns the handles that are done and were neither returned nor asked before."""
        with self._lock:
            if self._driven:
                self._sleep(None)
            else:
                self._drive_once()
            unseen = list(self._unseen)
            self._unseen.clear()
        return unseen

    def finished(self) -> Iterator[Handle]:
        """The handles as they are done, until none is left. Those submitted meanwhile are among them."""
        while True:
            with self._lock:
                while not self._unseen:
                    if self._driven:
                        self._sleep(None)
                    elif self._waiting or self._running:
                        self._drive_once()
                    else:
                        return
                handle = next(iter(self._unseen))
                del self._unseen[handle]
            yield handle

    def wait(self, handle: Handle) -> None:
        """Until the instance is done: this thread drives, or sleeps while another one does."""
        with self._lock:
            while not handle.done():
                if self._driven:
                    self._sleep(handle)
                else:
                    with self._driving():
                        while not handle.done():
                            self._advance()
            self._unseen.pop(handle, None)
            if not self._driven:
                self._call_next()

    async def awaited(self, handle: Handle) -> Any:
        """The result of an instance. One other thread drives for all tasks."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        with self._lock:
            if handle.done():
                done.set()
            else:
                self._awaited.setdefault(handle, []).append(tell)
                if not self._serving:
                    self._serving = True
                    self._later(self._serve)
        try:
            await done.wait()
        except asyncio.CancelledError:
            handle.cancel()
            raise
        return handle.result()

    def cancel(self) -> None:
        """Cancel all instances that are not done."""
        with self._lock:
            for handle in [*self._waiting, *self._running.values()]:
                self._remove(handle)

    def remove(self, handle: Handle) -> None:
        """Cancel an instance unless it is done."""
        with self._lock:
            self._remove(handle)

    def close(self) -> None:
        """Let threads and tasks that wait get their results, cancel the other instances, and take no more."""
        with self._lock:
            self._closed = True
            while self._driven or self._serving or self._asleep.keys() - {None}:
                self._sleep(None)
            for handle in [*self._waiting, *self._running.values()]:
                self._remove(handle)
            self._engine.close()

    # All below is with the lock

    def _serve(self) -> None:
        """Drive until no task waits."""
        with self._lock:
            try:
                while self._awaited:
                    if self._driven:
                        self._sleep(None)
                    else:
                        with self._driving():
                            while self._awaited:
                                self._advance()
            finally:
                self._serving = False
                for handle in list(self._awaited):  # there is an error, which their tasks find
                    self._tell(handle)
                self._call(None)

    def _sleep(self, handle: Handle | None) -> None:
        """Without the lock, until the handle is done, or until this thread may drive."""
        gate = threading.Lock()
        gate.acquire()
        self._asleep.setdefault(handle, []).append(gate)
        try:
            with self._unlocked():
                gate.acquire()
        except BaseException:
            gates = self._asleep.get(handle, [])
            if gate in gates:
                gates.remove(gate)
            else:
                self._call_next()
            raise

    def _call(self, handle: Handle | None) -> None:
        """Wake those that sleep for a handle."""
        for gate in self._asleep.pop(handle, ()):
            gate.release()

    def _call_next(self) -> None:
        """Wake all that sleep for no handle, and one that sleeps for one: if it is not done, it drives."""
        self._call(None)
        handle = next(iter(self._asleep), None)
        if handle is not None:
            gates = self._asleep[handle]
            if gates:
                gates.pop(0).release()
            if not gates:
                del self._asleep[handle]

    @contextmanager
    def _driving(self) -> Iterator[None]:
        self._driven = True
        try:
            yield
        finally:
            self._driven = False
            self._call_next()

    def _drive_once(self) -> None:
        if self._waiting or self._running:
            with self._driving():
                self._advance()

    @contextmanager
    def _unlocked(self) -> Iterator[None]:
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def _advance(self) -> None:
        """One flush of those that run, after some that wait have joined them."""
        try:
            self._join()
            with self._unlocked():
                failed = self._engine.step()
            if failed is not None:
                self._finish(failed[0], error=failed[1])
            self._drop()
            with self._unlocked():
                tickets, outputs = self._engine.take()
                results = self._results(outputs, len(tickets))
        except MemoryFull as full:
            self._begin_again(full)
        except DeploykitError as error:
            self._dropped.clear()
            for ticket in list(self._running):
                self._finish(ticket, error=error)
        else:
            for ticket, result in zip(tickets, results, strict=True):
                self._finish(ticket, result)
            self._drop()

    def _results(self, outputs: Sequence[Any], count: int) -> Sequence[Any]:
        """What `main` returned for instances that have finished."""
        if not count:
            return ()
        *results, launches, _ = map(from_storage, outputs, self._dtypes)
        self._record.launches = self._record.launches + launches
        return self.instances.results(results, count)

    def _finish(self, ticket: int, result: Any = None, error: Exception | None = None) -> None:
        """An instance is done, unless it was cancelled."""
        if ticket in self._dropped:
            self._dropped.remove(ticket)
            return
        handle = self._running.pop(ticket)
        handle.finish(result, error)
        self._unseen[handle] = None
        self._tell(handle)

    def _tell(self, handle: Handle) -> None:
        """Wake what waits for a handle that is done."""
        for tell in self._awaited.pop(handle, ()):
            tell()
        self._call(handle)
        self._call(None)

    def _remove(self, handle: Handle) -> None:
        if handle.done():
            return
        if handle in self._waiting:
            self._waiting.remove(handle)
        else:
            ticket = next(ticket for ticket, other in self._running.items() if other is handle)
            del self._running[ticket]
            self._dropped.append(ticket)
            if not self._driven:
                self._drop()
        handle.finish(error=CancelledError())
        self._tell(handle)

    def _drop(self) -> None:
        """Remove from the engine what was cancelled."""
        while self._dropped:
            self._engine.cancel(self._dropped.pop())

    def _join(self) -> None:
        if not self._running:
            if 0 < self._joined < _WIDE and self._waiting:
                self._engine.enlarge()
            self._joined = 0
        while self._waiting and (self._most is None or len(self._running) < self._most):
            if not self._engine.has_room:
                return
            inputs = self._waiting[0].inputs | {"policy": self.instances.policy_number()}
            try:
                ticket = self._engine.submit(list(inputs.values()))
            except MemoryFull:
                if self._running:
                    return
                self._running[-1] = self._waiting.popleft()
                raise
            except DeploykitError as error:
                self._running[-1] = self._waiting.popleft()
                self._finish(-1, error=error)
                continue
            self._running[ticket] = self._waiting.popleft()
            self._joined += 1

    def _begin_again(self, full: MemoryFull) -> None:
        """Let those that ran wait, in their order, before the others. One that runs out of memory by itself fails."""
        if not self._engine.grow(full):
            if len(self._running) == 1:
                self._finish(next(iter(self._running)), error=full)
            elif self._running:
                self._most = len(self._running) // 2
        self._waiting.extendleft(reversed(self._running.values()))
        self._running.clear()
        self._dropped.clear()
