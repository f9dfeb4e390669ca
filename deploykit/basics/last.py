"""What was done last, when several threads do it."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class LastOf(Generic[T]):
    """A value for each thread: the one that it put last. A thread that put none gets what any thread put last."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._any: T | None = None

    def put(self, value: T) -> None:
        self._own.value = self._any = value

    def get(self) -> T | None:
        own: T | None = getattr(self._own, "value", None)
        return self._any if own is None else own
