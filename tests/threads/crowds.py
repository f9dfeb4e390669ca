"""Many threads that use one session: each result must have the bits that the call has when it is alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

THREADS = 16


def bits(value: Any) -> Any:
    """What two results that are the same have in common."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, dict):
        return {name: bits(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return bits(vars(value))
    return np.float64(value).tobytes() if isinstance(value, float) else value


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of calls in threads that start at the same time. Raises the first error."""
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def work(number: int) -> None:
        start.wait()
        try:
            results[number] = calls[number]()
        except BaseException as error:  # noqa: BLE001  it is raised below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads), "threads wait for ever"
    if errors:
        raise errors[0]
    return results


def require_alone(call: Callable[[Any], Any], given: Sequence[Any], rounds: int = 20, threads: int = THREADS) -> None:
    """Call `call` from `threads` threads, `rounds` times each, and compare with what it gives alone."""
    alone = [bits(call(each)) for each in given]

    def work(number: int) -> list[int]:
        random = np.random.default_rng(number)
        chosen = random.integers(len(given), size=rounds).tolist()
        return [each for each in chosen if bits(call(given[each])) != alone[each]]

    wrong = together([lambda number=number: work(number) for number in range(threads)])  # type: ignore[misc]
    assert not any(wrong), f"{sum(map(len, wrong))} of {threads * rounds} results differ"
