"""Threads and tasks share one stream of instances: one drives, the others wait for theirs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.errors import DataError, UsageError
from tests.dynamic.harness import Built, assert_same_bits
from tests.dynamic.instances import instances
from tests.dynamic.test_submissions import walk
from tests.threads.crowds import THREADS, together

__all__ = ["walk"]

MODEL = "EarlyExit"


@pytest.fixture
def session(built: Built) -> Iterator[deploykit.Session]:
    with deploykit.open(built(MODEL, exact=True)) as opened:
        opened.policy = "alone"
        yield opened


def spread(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    return together([lambda number=number: work(number) for number in range(threads)])  # type: ignore[misc]


@pytest.mark.parametrize("policy", ["critical", "depth", "agenda", "alone"])
def test_each_thread_gets_its_results(session: deploykit.Session, policy: str) -> None:
    """Those of `alone`, whatever is batched with them: the model is built with exact results."""
    batches = [instances(MODEL, 6, seed=number) for number in range(THREADS)]
    expected = [session(batch) for batch in batches]
    session.policy = policy

    def work(number: int) -> list[Any]:
        random = np.random.default_rng(number)
        found: list[Any] = []
        handles: list[Any] = []
        for instance in batches[number]:
            handles.append(session.submit(instance))
            if random.random() < 0.5:
                found += [handle.result() for handle in handles]
                handles = []
        return found + [handle.result() for handle in handles]

    for _ in range(3):
        for found, wanted in zip(spread(work), expected, strict=True):
            assert_same_bits(found, wanted)


def test_threads_share_launches(session: deploykit.Session) -> None:
    """Sixteen threads need fewer launches than one after the other."""
    session.policy = "depth"
    given = instances(MODEL, THREADS, seed=1)
    alone = 0
    for instance in given:
        session([instance])
        alone += sum(count for _, count in session.launches)
    handles = [session.submit(instance) for instance in given]
    spread(lambda number: handles[number].result())
    assert sum(count for _, count in session.launches) < alone / 2


def test_steps_and_all_that_finished_from_threads(session: deploykit.Session) -> None:
    """Each handle is returned to one thread."""
    given = instances(MODEL, 64, seed=2)
    expected = session(given)
    handles = {session.submit(instance): number for number, instance in enumerate(given)}

    def work(number: int) -> list[Any]:
        found: list[Any] = []
        if number % 2:
            found += session.finished()
        else:
            while any(not handle.done() for handle in handles):
                found += session.step()
        return found

    returned = [handle for each in spread(work, 8) for handle in each] + session.step()
    assert sorted(handles[handle] for handle in returned) == list(range(64))
    assert_same_bits([handle.result() for handle in handles], expected)


def test_cancelled_and_faulty_ones_do_not_disturb_others(walk: Path) -> None:
    good = [(0.1 * n, n % 7, n % 3) for n in range(8)]
    with deploykit.open(walk) as session:
        expected = session(good)

        def work(number: int) -> None:
            random = np.random.default_rng(number)
            for turn in range(20):
                bad, gone, fine = (
                    session.submit((0.1, -1, 0)),
                    session.submit((0.3, 6, 1)),
                    session.submit(good[turn % 8]),
                )
                if random.random() < 0.5:
                    session.step()
                cancelled = gone.cancel()
                with pytest.raises(DataError, match="limit >= 0"):
                    bad.result()
                value, steps, large = fine.result()
                wanted = expected[turn % 8]
                np.testing.assert_allclose(value, wanted[0], 1e-6, 1e-6)
                assert (steps, large) == wanted[1:]
                assert cancelled == gone.cancelled()
                if cancelled:
                    with pytest.raises(CancelledError):
                        gone.result()
                else:
                    gone.result()

        spread(work, 8)
        session.cancel()
        list(session.finished())
        assert session.step() == []


def test_one_that_waits_is_woken_when_another_thread_cancels(session: deploykit.Session) -> None:
    handles = [session.submit(instance) for instance in instances(MODEL, 200, seed=3)]

    def work(number: int) -> int:
        if number == 0:
            session.cancel()
            return 0
        done = 0
        for handle in handles[number::8]:
            try:
                handle.result()
                done += 1
            except CancelledError:
                assert handle.cancelled()
        return done

    assert sum(spread(work, 8)) == sum(not handle.cancelled() for handle in handles[1:] if handles.index(handle) % 8)


def test_whole_runs_beside_a_stream(session: deploykit.Session) -> None:
    given = instances(MODEL, 8, seed=4)
    expected = session(given)

    def work(number: int) -> None:
        for _ in range(5):
            if number % 2:
                assert_same_bits(session(given), expected)
            else:
                assert_same_bits([handle.result() for handle in map(session.submit, given)], expected)

    spread(work)


def test_results_that_are_waited_for_survive_closing(built: Built) -> None:
    given = instances(MODEL, 300, seed=5)
    session = deploykit.open(built(MODEL, exact=True))
    session.policy = "alone"
    expected = session(given)
    handles = [session.submit(instance) for instance in given]
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(handles[-1].result()))
    thread.start()
    while not any(handle.done() for handle in handles) and not found:
        time.sleep(1e-4)
    session.close()
    thread.join(60)
    assert_same_bits(found, expected[-1:])
    for handle in handles:
        assert handle.done()
    with pytest.raises(UsageError, match="the session is closed"):
        session.submit(given[0])


def test_tasks(session: deploykit.Session) -> None:
    given = instances(MODEL, 40, seed=6)
    expected = session(given)

    async def answer(instance: Any) -> Any:
        return await session.submit(instance)

    async def main() -> list[Any]:
        return await asyncio.gather(*map(answer, given))

    assert_same_bits(asyncio.run(main()), expected)


def test_a_task_that_is_cancelled(session: deploykit.Session) -> None:
    """An instance that is computed already is not cancelled, which may happen on a busy machine, but not each time."""
    given = instances(MODEL, 200, seed=7)

    async def main() -> bool:
        handles = [session.submit(instance) for instance in given]
        gone = handles[-1]

        async def wait() -> Any:
            return await gone

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await handles[0]
        return gone.cancelled()

    for _ in range(10):
        cancelled = asyncio.run(main())
        assert sum(not handle.cancelled() for handle in session.finished()) >= 198
        if cancelled:
            return
    pytest.fail("no handle was cancelled with its task")


def test_errors_reach_tasks(walk: Path) -> None:
    with deploykit.open(walk) as session:

        async def main() -> None:
            bad, good = session.submit((0.1, -1, 0)), session.submit((0.1, 3, 0))
            with pytest.raises(DataError, match="limit >= 0"):
                await bad
            assert (await good)[1] == 3

        asyncio.run(main())
