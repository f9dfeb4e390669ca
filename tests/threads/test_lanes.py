"""`deploykit.engines.lanes`: who gets a thing, in which order, and when none is given any more."""

from __future__ import annotations

import threading
import time
from itertools import count

import pytest

from deploykit.engines.lanes import ClosedError, Lanes
from tests.threads.crowds import together


def numbered(most: int) -> Lanes[int]:
    numbers = count(1)
    return Lanes(lambda: next(numbers), most)


def test_one_thread_uses_one() -> None:
    lanes = numbered(4)
    for _ in range(10):
        lanes.give(lanes.take())
    assert lanes.made == (1,)


def test_no_two_threads_have_the_same() -> None:
    lanes = numbered(3)
    used: set[int] = set()
    lock = threading.Lock()

    def work() -> int:
        for _ in range(300):
            with lanes.one() as mine:
                with lock:
                    assert mine not in used
                    used.add(mine)
                time.sleep(0 if mine % 2 else 1e-5)
                with lock:
                    used.remove(mine)
        return mine

    assert set(together([work] * 16)) <= {1, 2, 3}
    assert len(lanes.made) <= 3


@pytest.mark.parametrize("seconds", [0.0, 2e-5, 2e-3])
def test_nobody_starves(seconds: float) -> None:
    """Threads that come again and again, with short and long uses: each gets its share."""
    lanes = numbered(1)
    end = time.monotonic() + 0.6
    turns = [0] * 8

    def work(number: int) -> None:
        while time.monotonic() < end:
            with lanes.one():
                turns[number] += 1
                until = time.perf_counter() + seconds
                while time.perf_counter() < until:
                    pass

    together([lambda number=number: work(number) for number in range(8)])  # type: ignore[misc]
    assert min(turns) >= sum(turns) / 8 / 10, turns


def test_a_thing_that_is_left_free_is_found_soon() -> None:
    """The thread that gave it back never comes again."""
    lanes = numbered(1)
    mine = lanes.take()
    waited: list[float] = []

    def wait() -> None:
        lanes.take()
        waited.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    given = time.monotonic()
    lanes.give(mine)
    thread.join(10)
    assert waited[0] - given < 1


def test_closing_waits_and_then_refuses() -> None:
    lanes = numbered(2)
    mine = lanes.take()
    ended: list[str] = []

    def close() -> None:
        assert set(lanes.close()) == {1}
        ended.append("closed")

    thread = threading.Thread(target=close)
    thread.start()
    time.sleep(0.05)
    assert not ended
    lanes.give(mine)
    thread.join(10)
    assert ended == ["closed"]
    assert lanes.close() == ()
    with pytest.raises(ClosedError, match="the session is closed: open it again"):
        lanes.take()


def test_who_waits_while_it_closes_is_served_or_refused() -> None:
    lanes = numbered(1)
    results: list[str] = []

    def use() -> None:
        try:
            for _ in range(1000):
                with lanes.one():
                    time.sleep(1e-5)
        except ClosedError:
            results.append("refused")
        else:
            results.append("served")

    def close() -> None:
        time.sleep(0.02)
        lanes.close()

    together([use] * 6 + [close])
    assert len(results) == 6
    assert "refused" in results


def test_what_cannot_be_made_is_tried_again() -> None:
    tries: list[int] = []

    def make() -> int:
        tries.append(1)
        if len(tries) == 2:
            raise ValueError("no memory")
        return len(tries)

    lanes = Lanes(make, 2)
    first = lanes.take()
    with pytest.raises(ValueError, match="no memory"):
        lanes.take()
    assert lanes.take() == 3
    lanes.give(first)
    assert lanes.take() == 1
