"""Work that is done side by side by threads: what takes its time outside of Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`function` of every item, in order. The first error ends it."""
    todo = list(items)
    threads = min(processors(), len(todo))
    if threads <= 1:
        return [function(item) for item in todo]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, todo))
