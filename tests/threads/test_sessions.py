"""Sessions that end while threads run, tasks, copies, other processes, and memory over many runs."""

from __future__ import annotations

import asyncio
import copy
import gc
import multiprocessing
import os
import pickle  # noqa: TID251  what multiprocessing does with sessions
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from tests.frontends.running_mean import WIDTH, running_mean, weights
from tests.seeded import seeded
from tests.threads.crowds import bits, require_alone, together
from tests.threads.test_forms import CELL, WEIGHTS, sample

ROUNDS = """<ir_version: 9, opset_import: ["": 20]>
rounds (float[n, 32] x, int64 count) => (float[n, 32] y) {
    true = Constant <value = bool {1}> ()
    y = Loop (count, true, x) <body = step (int64 i, bool go, float[n, 32] a) => (bool on, float[n, 32] b) {
        on = Identity(go)  b = MatMul(a, w)
    }>
}"""


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions") / "cell"
    deploykit.build(seeded(CELL, WEIGHTS), output=folder)
    return folder


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose run takes as long as one likes."""
    folder = tmp_path_factory.mktemp("sessions") / "rounds"
    deploykit.build(seeded(ROUNDS, {"w": (32, 32)}), output=folder)
    return folder


def long(rows: int = 64, count: int = 30_000) -> dict[str, np.ndarray]:
    return {"x": np.ones((rows, 32), np.float32), "count": np.array(count)}


def test_runs_that_go_on_end_right_when_the_session_is_closed(rounds: Path) -> None:
    session = deploykit.open(rounds, callers=2, threads=2)
    alone = bits(session.run(long()))
    begun = threading.Semaphore(0)
    closed = threading.Event()

    def run() -> Any:
        begun.release()
        return bits(session.run(long()))

    def close() -> None:
        begun.acquire()
        begun.acquire()
        time.sleep(0.02)
        session.close()
        closed.set()

    assert together([run, run, close])[:2] == [alone, alone]
    assert closed.is_set()
    for use in (
        lambda: session.run(long()),
        lambda: session.peak_bytes({"n": 3}),
        lambda: asyncio.run(session.run_async(long())),
        lambda: session(**long()),
    ):
        with pytest.raises(UsageError, match="the session is closed: open it again"):
            use()
    session.close()


def test_two_threads_close(cell: Path) -> None:
    session = deploykit.open(cell)
    session.run(sample(3))
    together([session.close] * 8)


def test_runs_go_on_at_the_same_time(rounds: Path) -> None:
    """Two short runs pass a long one."""
    with deploykit.open(rounds, callers=2) as session:
        session.run(long(count=1))
        begun = time.perf_counter()
        session.run(long())
        seconds = time.perf_counter() - begun
        order: list[str] = []

        def run(name: str, count: int, delay: float) -> None:
            time.sleep(delay)
            session.run(long(count=count))
            order.append(name)

        together([lambda: run("long", 30_000, 0), lambda: run("short", 3, seconds / 4)])
        assert order == ["short", "long"]


def test_a_function_outlives_its_session(cell: Path, tmp_path: Path) -> None:
    deploykit.build(running_mean(weights()), output=tmp_path / "mean")
    project = deploykit.open(tmp_path / "mean", threads=2).functions["project"]
    gc.collect()
    x = np.ones((3, WIDTH), np.float32)
    np.testing.assert_allclose(project(rows=x)["projected"], x @ weights(), 1e-5)
    assert bits(deploykit.open(cell).run(sample(3))) == bits(deploykit.open(cell, threads=2).run(sample(3)))


def test_tasks(cell: Path) -> None:
    with deploykit.open(cell) as session:
        given = [sample(rows) for rows in (1, 5, 64, 9)] * 25
        expected = [bits(session.run(each)) for each in given]

        async def main() -> list[Any]:
            return await asyncio.gather(*(session.run_async(each) for each in given))

        before = threading.active_count()
        assert [bits(found) for found in asyncio.run(main())] == expected
        assert threading.active_count() <= before + 2 * deploykit.basics.parallel.processors()
        with pytest.raises(deploykit.ShapeError, match="input 'x' is missing"):
            asyncio.run(session.run_async({"h": given[0]["h"]}))


def test_tasks_that_are_cancelled(rounds: Path) -> None:
    """The loop goes on at once; a run that has not begun does not take place."""
    with deploykit.open(rounds, callers=1) as session:

        async def main() -> None:
            first = asyncio.create_task(session.run_async(long(count=60_000)))
            second = asyncio.create_task(session.run_async(long(count=2_000_000)))
            await asyncio.sleep(0.02)
            begun = time.perf_counter()
            for task in (first, second):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert time.perf_counter() - begun < 0.5
            assert (await session.run_async(long(count=0)))["y"].shape == (64, 32)

        begun = time.perf_counter()
        asyncio.run(main())
        assert time.perf_counter() - begun < 20


def test_copies(cell: Path, tmp_path: Path) -> None:
    with deploykit.open(cell, threads=2, callers=3) as session:
        expected = bits(session.run(sample(9)))
        copies = [copy.copy(session), copy.deepcopy(session), pickle.loads(pickle.dumps(session))]
    for each in copies:
        assert bits(each.run(sample(9))) == expected
        each.close()
    deploykit.build(running_mean(weights()), output=tmp_path / "mean")
    with deploykit.open(tmp_path / "mean") as session:
        session.reset({"streams": 3})
        x = np.ones((3, WIDTH), np.float32)
        for _ in range(2):
            session.functions["update"](x=x)
        other = pickle.loads(pickle.dumps(session))
        other.reset({"streams": 3})
        assert other.functions["update"](x=x)["samples"] == 1
        assert session.functions["update"](x=x)["samples"] == 3
        project = pickle.loads(pickle.dumps(session.functions["project"]))
        assert bits(project(rows=x)) == bits(session.functions["project"](rows=x))


def test_relative_folders(cell: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(cell.parent)
    session = deploykit.open(cell.name)
    monkeypatch.chdir(tmp_path)
    assert bits(copy.copy(session).run(sample(2))) == bits(session.run(sample(2)))


def _run(session: deploykit.Session, rows: int) -> Any:
    return bits(session.run(sample(rows)))


def test_other_processes(cell: Path) -> None:
    with deploykit.open(cell) as session:
        expected = [_run(session, rows) for rows in (1, 4, 9)]
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            assert list(pool.map(_run, [session] * 3, (1, 4, 9))) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("threads", [1, 2])
def test_forks_while_threads_run(cell: Path, threads: int) -> None:
    """The new process has none of the threads, whatever they held."""
    program = f"""
import os, sys, threading
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import deploykit
from tests.threads.crowds import bits
from tests.threads.test_forms import sample
session = deploykit.open({str(cell)!r}, threads={threads})
alone = bits(session.run(sample(200)))
stop = threading.Event()
def work():
    while not stop.is_set():
        session.run(sample(200))
workers = [threading.Thread(target=work) for _ in range(6)]
for worker in workers:
    worker.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        good = all(bits(session.run(sample(200))) == alone for _ in range(3))
        session.close()
        os._exit(0 if good else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
for worker in workers:
    worker.join()
assert bits(session.run(sample(200))) == alone
print("right")
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert made.stdout == "right\n", made.stderr


@pytest.mark.parametrize("threads", [1, 2])
def test_a_process_ends_while_daemon_threads_run(rounds: Path, threads: int) -> None:
    program = f"""
import threading, time
import numpy as np
import deploykit
session = deploykit.open({str(rounds)!r}, threads={threads})
given = {{"x": np.ones((64, 32), np.float32), "count": np.array(300_000)}}
for _ in range(2):
    threading.Thread(target=session.run, args=(given,), daemon=True).start()
time.sleep(0.1)
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (made.returncode, made.stderr) == (0, "")


@pytest.mark.slow
def test_a_hundred_thousand_runs_from_eight_threads(cell: Path) -> None:
    """All have the right bits, and memory stays as it is after the first thousand."""
    given = [sample(rows) for rows in (1, 2, 3, 5, 8)]
    with deploykit.open(cell) as session:
        require_alone(session.run, given, rounds=500, threads=8)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        require_alone(session.run, given, rounds=12_500, threads=8)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 4096, f"{grown} KiB more"


def test_a_pool_of_threads(cell: Path) -> None:
    with deploykit.open(cell) as session, ThreadPoolExecutor(16) as pool:
        given = [sample(rows) for rows in (1, 5, 64)] * 30
        assert [bits(found) for found in pool.map(session.run, given)] == [bits(session.run(each)) for each in given]


def test_callers_must_be_positive(cell: Path) -> None:
    with pytest.raises(UsageError, match="callers must be at least 1, found 0"):
        deploykit.open(cell, callers=0)


def test_endpoints_of_a_web_framework(cell: Path) -> None:
    """Synchronous ones, which run in its threads, and asynchronous ones."""
    fastapi = pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    app = fastapi.FastAPI()
    with deploykit.open(cell) as session:

        @app.get("/sync/{rows}")
        def sync(rows: int) -> list[float]:
            return [float(value) for value in session.run(sample(rows))["y"][0]]

        @app.get("/tasks/{rows}")
        async def tasks(rows: int) -> list[float]:
            outputs = await session.run_async(sample(rows))
            return [float(value) for value in outputs["y"][0]]

        expected = {rows: session.run(sample(rows))["y"][0].tolist() for rows in (1, 5, 64)}

        def ask(number: int) -> None:
            for rows, wanted in expected.items():
                assert client.get(f"/{('sync', 'tasks')[number % 2]}/{rows}").json() == wanted

        with TestClient(app) as client:
            together([lambda number=number: ask(number) for number in range(8)])  # type: ignore[misc]
