"""Lets threads share things that serve one thread at a time: a pool that is filled as threads need it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from time import monotonic
from typing import Generic, TypeVar

from deploykit.basics.forks import renew_after_fork
from deploykit.errors import UsageError

T = TypeVar("T")


class ClosedError(UsageError):
    """Something is used after it was closed."""

    def __init__(self) -> None:
        super().__init__("the session is closed: open it again")


_SLICE = 5e-3
"""Seconds for which threads that take things again and again may keep those that wait from their turn. Waking a thread
takes some 1e-5 s, more than a short use."""

_PAUSE = 1e-4
"""Seconds after which a thread that was told of a free thing looks again, if another one took it first. The pauses
double, up to `_LONGEST_PAUSE`."""

_LONGEST_PAUSE = 1e-3


class _Waiter(Generic[T]):
    """A thread in the queue. It sleeps until another thread calls it, and looks from time to time from then on."""

    def __init__(self) -> None:
        self.given: T | None = None
        self.called = False
        self._pause = _PAUSE
        self._gate = threading.Lock()
        self._gate.acquire()

    def call(self) -> None:
        if not self.called:
            self.called = True
            self._gate.release()

    def give(self, one: T) -> None:
        self.given = one
        if self.called:
            with suppress(RuntimeError):  # it has not slept since it was called
                self._gate.release()
        self.call()

    def sleep(self) -> None:
        if self.called:
            self._gate.acquire(timeout=self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        else:
            self._gate.acquire()


class Lanes(Generic[T]):
    """At most `most` things, of which each serves one thread at a time: `take` one, use it, and `give` it back. None
    stands for no thing.

    The first is made at once, a further one when a thread finds none free. Threads that find none wait in a queue.
    After a use of 5 milliseconds or more the first of them is next. Shorter uses may follow one another in threads that
    are awake, which saves waking one for each, until 5 milliseconds are over."""

    def __init__(self, make: Callable[[], T], most: int = 1) -> None:
        self._make = make
        self._most = most
        self._free: list[T] = []
        self._made: list[T] = []
        self._waiting: deque[_Waiter[T]] = deque()
        self._closed = False
        self._served = 0.0
        """When one was last handed to a thread that waited."""
        self.renew()
        self.give(self.take())
        renew_after_fork(self)

    @property
    def made(self) -> tuple[T, ...]:
        """All that there are, also those in use."""
        return tuple(self._made)

    @property
    def idle(self) -> bool:
        """Whether none is in use. When the owner of lanes is deleted, one is in use only if the process ends while a
        daemon thread has it: nothing may be closed then."""
        return len(self._free) == len(self._made)

    def take(self) -> T:
        """One that no other thread has until `give`. Raises `ClosedError`, and what making one raises."""
        try:
            return self._free.pop()
        except IndexError:
            return self._made_or_awaited()

    def give(self, one: T) -> None:
        self._free.append(one)
        if self._waiting:
            self._serve()

    @contextmanager
    def one(self) -> Iterator[T]:
        """One of them for a block."""
        taken = self.take()
        try:
            yield taken
        finally:
            self.give(taken)

    def close(self) -> tuple[T, ...]:
        """Wait until none is in use. None can be taken afterwards, by those that wait neither. Returns all of them."""
        with self._closing:
            with self._lock:
                self._ending = True
            taken: list[T] = []
            try:
                while not self._closed and len(taken) < len(self._made):
                    taken.append(self.take())
            except BaseException:
                for one in taken:
                    self.give(one)
                raise
            with self._lock:
                self._closed = True
                for waiter in self._waiting:
                    waiter.call()
            return tuple(taken)

    def renew(self) -> None:
        """Start without threads: what they had is made anew."""
        self._lock, self._closing = threading.Lock(), threading.Lock()
        self._ending = False
        for each in (self._free, self._made, self._waiting):
            each.clear()

    def _made_or_awaited(self) -> T:
        with self._lock:
            if self._closed:
                raise ClosedError
            if len(self._made) < self._most and not self._ending:
                self._made.append(self._make())
                return self._made[-1]
            waiter = _Waiter[T]()
            self._waiting.append(waiter)
        try:
            while (taken := self._taken_by(waiter)) is None:
                waiter.sleep()
        except BaseException:
            self._leave(waiter)
            raise
        return taken

    def _taken_by(self, waiter: _Waiter[T]) -> T | None:
        with self._lock:
            taken = waiter.given
            if taken is None:
                if self._closed:
                    raise ClosedError
                taken = self._popped()
                if taken is not None:
                    self._waiting.remove(waiter)
                    self._call()
            return taken

    def _leave(self, waiter: _Waiter[T]) -> None:
        """A thread waits no longer, because of an exception."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            self._call()
        if waiter.given is not None:
            self.give(waiter.given)

    def _serve(self) -> None:
        with self._lock:
            now = monotonic()
            if self._waiting and now - self._served > _SLICE:
                one = self._popped()
                if one is not None:
                    self._served = now
                    self._waiting.popleft().give(one)
            self._call()

    def _call(self) -> None:
        """Tell as many threads as there are things for them."""
        for waiter in islice(self._waiting, len(self._free)):
            waiter.call()

    def _popped(self) -> T | None:
        try:
            return self._free.pop()
        except IndexError:
            return None
