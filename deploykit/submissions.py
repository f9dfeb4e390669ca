"""Instances of a dynamic model that are submitted one by one, and join while others run: continuous batching.

    handles = [session.submit(tree) for tree in trees]
    for handle in session.finished():
        print(handle.result())

Nothing runs in the background: `step`, `finished` and `Handle.result` do the work. Instances wait here until the engine
has room for them. When its memory does not suffice, all that run begin again, in more memory, or fewer at a time;
results that are there stay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from deploykit.dtypes import LogicalDtype, from_storage
from deploykit.engines import MemoryFull, StreamEngine
from deploykit.errors import DeploykitError
from deploykit.instances import Instances

_WIDE = 256
"""Where fewer instances than this fill the memory, it is enlarged."""


class Handle:
    """An instance that was submitted. The methods are those of `concurrent.futures.Future`."""

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
        if not self._done:
            self._submissions.remove(self)
        return self.cancelled()

    def exception(self) -> Exception | None:
        """The error of the instance, if it has one. Runs all instances until this one is done."""
        while not self._done:
            self._submissions.advance()
        self._submissions.seen(self)
        return self._error

    def result(self) -> Any:
        """What `main` returns for the instance. Runs all instances until this one is done. Raises its error,
        `CancelledError` if it was cancelled."""
        error = self.exception()
        if error is not None:
            raise error
        return self._result

    def finish(self, result: Any = None, error: Exception | None = None) -> None:
        """The instance is done."""
        self._done, self._result, self._error = True, result, error


class Submissions:
    """The instances of a session that were submitted. Those that run are known to the engine by tickets."""

    def __init__(self, instances: Instances, engine: StreamEngine, outputs: Sequence[LogicalDtype]) -> None:
        """`outputs` are the dtypes of the outputs of a run."""
        self.instances = instances
        self._dtypes = outputs
        self._engine = engine
        self._most = engine.most
        self._waiting: deque[Handle] = deque()
        self._running: dict[int, Handle] = {}
        self._unseen: dict[Handle, None] = {}
        self._joined = 0
        """Since no instance ran."""

    def submit(self, instance: Any) -> Handle:
        """Raises `ShapeError` and `DataError` for an instance that does not fit."""
        handle = Handle(self, instance)
        if not self._waiting and not self._running:
            self.instances.count(None)
        self._waiting.append(handle)
        return handle

    def step(self) -> list[Handle]:
        """Run to the next flush. Returns the handles that are done and were neither returned nor asked before."""
        if self._waiting or self._running:
            self.advance()
        unseen = list(self._unseen)
        self._unseen.clear()
        return unseen

    def finished(self) -> Iterator[Handle]:
        """The handles as they are done, until none is left. Those submitted meanwhile are among them."""
        while self._waiting or self._running or self._unseen:
            if not self._unseen:
                self.advance()
            if self._unseen:
                handle = next(iter(self._unseen))
                self.seen(handle)
                yield handle

    def seen(self, handle: Handle) -> None:
        """Do not return this handle from `step`."""
        self._unseen.pop(handle, None)

    def cancel(self) -> None:
        """Cancel all instances that are not done."""
        for handle in [*self._waiting, *self._running.values()]:
            self.remove(handle)

    def remove(self, handle: Handle) -> None:
        """Cancel an instance that is not done."""
        for ticket, other in self._running.items():
            if other is handle:
                self._engine.cancel(ticket)
                del self._running[ticket]
                break
        else:
            self._waiting.remove(handle)
        handle.finish(error=CancelledError())

    def advance(self) -> None:
        """One flush of those that run, after some that wait have joined them."""
        try:
            self._join()
            failed = self._engine.step()
            if failed is not None:
                self._finish(failed[0], error=failed[1])
            tickets, outputs = self._engine.take()
        except MemoryFull as full:
            self._begin_again(full)
            return
        except DeploykitError as error:
            for ticket in list(self._running):
                self._finish(ticket, error=error)
            return
        if tickets:
            *results, launches, _ = map(from_storage, outputs, self._dtypes)
            self.instances.count(launches)
            for ticket, result in zip(tickets, self.instances.results(results, len(tickets)), strict=True):
                self._finish(ticket, result)

    def _finish(self, ticket: int, result: Any = None, error: Exception | None = None) -> None:
        handle = self._running.pop(ticket)
        handle.finish(result, error)
        self._unseen[handle] = None

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
            else:
                self._most = len(self._running) // 2
        self._waiting.extendleft(reversed(self._running.values()))
        self._running.clear()
