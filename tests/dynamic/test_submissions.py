"""Instances that join while others run have the results of one batch, whenever they arrive, and whatever others do."""

from __future__ import annotations

import resource
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.engines.native import stream
from deploykit.errors import DataError, ShapeError, UsageError
from tests.dynamic import models
from tests.dynamic.harness import EMBEDDED, Built, assert_close, assert_same_bits, eager
from tests.dynamic.instances import instances
from tests.dynamic.test_records import SOURCE as RECORDS
from tests.dynamic.test_records import loaded, require_equal

POLICIES = ("critical", "depth", "agenda", "alone")

SOURCE = """
from __future__ import annotations

from deploykit.dynamic import Model, Tensor, sum, tanh


class Walk(Model):
    \"\"\"Steps until a sum is large. It fails where a number is wrong, before, between and after tensors.\"\"\"

    w: Tensor[4, 4]
    rows: Tensor[3, 4]

    def part(self, x: Tensor[4], depth: int, row: int) -> Tensor[4]:
        if depth == 0:
            return x + self.rows[row]
        a = self.part(tanh(x @ self.w), depth - 1, row)
        b = self.part(x * 0.5, depth - 1, row)
        if float(sum(a)) > 100.0:
            return a
        return a + b

    def main(self, start: float, limit: int, row: int) -> tuple[Tensor[4], int, bool]:
        assert limit >= 0
        x = self.rows[0] * start
        steps, power = 0, 3
        while steps < limit and float(sum(x)) < 1000.0:
            x = tanh(x @ self.w) + x + 0.01
            steps += 1
            power = power * 3
        return self.part(x, 3, row), steps, power > 10
"""
"""`limit` from 19 on gives a number that has more than 32 bits, `row` from 3 on has no row."""


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk")
    (folder / "walk.py").write_text(SOURCE)
    deploykit.build(f"{folder / 'walk.py'}:Walk", output=folder / "dist")
    return folder / "dist"


def submitted(session: Any, given: list[Any], seed: int) -> list[Any]:
    """The handles of instances that arrive in random order, some at a time, between steps."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(given)).tolist()
    handles: dict[int, Any] = {}
    done = []
    while order:
        for number in order[: int(random.integers(4))]:
            handles[number] = session.submit(given[number])
            order.remove(number)
        done += session.step()
    done += session.finished()
    assert len(done) == len(set(done)) == len(given)
    assert all(handle.done() for handle in done)
    return [handles[number] for number in range(len(given))]


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", ["EarlyExit", "Generator", "ShiftReduce", "TwoTypes"])
def test_results_are_those_of_a_batch(built: Built, model: str, policy: str) -> None:
    given = instances(model, 30, seed=3)
    with deploykit.open(built(model)) as session:
        session.policy = policy
        found = [handle.result() for handle in submitted(session, given, seed=len(model))]
        assert_close(found, session(given))
        assert_close(found, eager(getattr(models, model)(), given))


@pytest.mark.parametrize("model", ["EarlyExit", "Generator"])
def test_exact_results_have_the_same_bits(built: Built, model: str) -> None:
    given = instances(model, 40, seed=4)
    with deploykit.open(built(model, exact=True)) as session:
        session.policy = "alone"
        expected = session(given)
        for policy in POLICIES:
            session.policy = policy
            assert_same_bits([handle.result() for handle in submitted(session, given, seed=1)], expected)


def test_instances_join_the_next_flush(built: Built) -> None:
    """Instances that are submitted later run with those that were there: fewer launches than one after the other."""
    given = instances("EarlyExit", 16, seed=5)
    with deploykit.open(built("EarlyExit")) as session:
        alone = 0
        for instance in given:
            session([instance])
            alone += sum(count for _, count in session.launches)
        handles = []
        for instance in given:
            handles.append(session.submit(instance))
            session.step()
        assert not handles[-1].done()
        list(session.finished())
        together = sum(count for _, count in session.launches)
        assert together < alone / 2


def test_results_that_are_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "generator.py").write_text(RECORDS)
    deploykit.build(f"{tmp_path / 'generator.py'}:Generator", output=tmp_path / "dist")
    model = loaded(tmp_path / "generator.py", monkeypatch).Generator()
    random = np.random.default_rng(0)
    given = [(random.standard_normal(8, dtype=np.float32), float(scale)) for scale in range(12)]
    with deploykit.open(tmp_path / "dist") as session:
        for handle, instance in zip(submitted(session, given, seed=2), given, strict=True):
            expected, _, states = model.main(*instance)
            tree, seven, lists = handle.result()
            require_equal(tree, expected)
            assert seven == 7
            for found, state in zip(lists, states, strict=True):
                np.testing.assert_allclose(found, state, atol=1e-6)


def test_one_that_fails_does_not_disturb_the_others(walk: Path) -> None:
    good = [(0.1 * n, n % 7, n % 3) for n in range(20)]
    bad = [(0.1, -1, 0), (0.1, 19, 0), (0.2, 5, 3), (0.3, 0, 9), (0.5, 25, 1)]
    given = [instance for pair in zip(good, [*bad, *bad, *bad, *bad], strict=True) for instance in pair]
    with deploykit.open(walk) as session:
        expected = session(good)
        handles = submitted(session, given, seed=3)
        assert_close([handle.result() for handle in handles[::2]], expected, 1e-6)
        for handle, instance in zip(handles[1::2], [*bad, *bad, *bad, *bad], strict=True):
            message = "limit >= 0" if instance[1] < 0 else "more than 32 bits" if instance[1] > 18 else "row"
            assert message in str(handle.exception())
            with pytest.raises(DataError):
                handle.result()
        with pytest.raises(ShapeError):
            session.submit((1.0, "two", 0))
        assert_close([session.submit(good[1]).result()], [expected[1]], 1e-6)


def test_cancelled_instances(walk: Path) -> None:
    random = np.random.default_rng(0)
    given = [(0.1 * n, n % 9, n % 3) for n in range(40)]
    with deploykit.open(walk) as session:
        expected = session(given)
        handles = []
        for instance in given:
            handles.append(session.submit(instance))
            if random.random() < 0.4:
                handles[int(random.integers(len(handles)))].cancel()
            session.step()
        list(session.finished())
        assert 5 < sum(handle.cancelled() for handle in handles) < 35
        for handle, result in zip(handles, expected, strict=True):
            if handle.cancelled():
                with pytest.raises(CancelledError):
                    handle.result()
            else:
                assert not handle.cancel()
                assert_close([handle.result()], [result], 1e-6)
        handles = [session.submit(instance) for instance in given]
        session.step()
        session.cancel()
        assert list(session.finished()) == []
        assert all(handle.done() for handle in handles)
        assert_close([session.submit(given[8]).result()], [expected[8]], 1e-6)


def test_a_result_runs_what_it_needs_and_is_not_given_again(built: Built) -> None:
    given = instances("EarlyExit", 5, seed=6)
    with deploykit.open(built("EarlyExit")) as session:
        assert session.step() == list(session.finished()) == []
        first, *others = [session.submit(instance) for instance in given]
        whole = session(given)  # a whole run has memory of its own
        assert_close([first.result()], whole[:1])
        assert set(session.finished()) == set(others)
        assert_close([handle.result() for handle in others], whole[1:])
        for handle in session.finished():
            pytest.fail(f"{handle} again")
        chained = session.submit(given[0])
        for count, _ in enumerate(session.finished()):
            if count < 3:
                session.submit(given[count])
        assert chained.done()


def test_a_long_stream_needs_no_more_memory(tmp_path: Path) -> None:
    """10,000 instances through memory for some dozens of them, without growth of the process."""
    given = instances("EarlyExit", 100, seed=7)
    dims = {"capacity_control": 1 << 14, "capacity_pool": 1 << 13}
    deploykit.build(f"{Path(models.__file__)}:EarlyExit", dims=dims, output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        expected = session(given)
        numbers: dict[Any, int] = {}
        done, sizes = 0, []

        def check(handle: Any) -> None:
            nonlocal done
            (tensor, steps, score), (other, others, final) = handle.result(), expected[numbers.pop(handle)]
            assert steps == others
            assert abs(tensor - other).max() < 1e-5 > abs(score - final)
            done += 1

        for number in range(10_000):
            numbers[session.submit(given[number % 100])] = number % 100
            for handle in session.step() if number % 7 == 0 else ():
                check(handle)
            if number in (2000, 9999):
                sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        for handle in session.finished():
            check(handle)
    assert done == 10_000
    assert sizes[1] - sizes[0] < 4 * 1024  # KiB


def test_memory_that_grows(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_FIRST", 4096)
    given = instances("TreeLSTM", 200, seed=1)
    expected = eager(models.TreeLSTM(), given)
    with deploykit.open(built("TreeLSTM")) as session:
        handles = [session.submit(instance) for instance in given]
        assert_close([handle.result() for handle in handles], expected)


def test_memory_that_does_not_suffice(tmp_path: Path) -> None:
    """Fewer run at a time, and one that never fits fails alone."""
    given = instances("TreeLSTM", 60, seed=1)
    expected = eager(models.TreeLSTM(), given)
    dims = EMBEDDED | {"capacity_control": 4096, "capacity_pool": 2048}
    deploykit.build(f"{Path(models.__file__)}:TreeLSTM", "embedded", dims, tmp_path / "dist")
    large = models.Leaf(1)
    for _ in range(300):
        large = models.Node(large, models.Leaf(2))  # type: ignore[assignment]
    with deploykit.open(tmp_path / "dist") as session:
        handles = [session.submit(instance) for instance in [*given[:30], large, *given[30:]]]
        assert len(list(session.finished())) == 61
        failed = handles.pop(30)
        assert_close([handle.result() for handle in handles], expected)
        with pytest.raises(UsageError, match="set capacity dim"):
            failed.result()
        assert_close([session.submit(given[0]).result()], expected[:1])


def test_where_instances_cannot_join(built: Built) -> None:
    folder = built("EarlyExit", "embedded", elements=True)
    with deploykit.open(folder, sanitize=True) as session, pytest.raises(UsageError, match="whole batches"):
        session.submit(instances("EarlyExit", 1)[0])
