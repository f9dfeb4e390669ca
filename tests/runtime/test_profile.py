"""The times of steps: which steps are counted, and how often."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.compiler.program.ir import BindDim, Copy, CopySlice, If, Launch, Loop, Reserve
from deploykit.errors import UsageError
from deploykit.pipeline import write_artifact
from deploykit.targets.base import PackageOptions, find_target
from tests.runtime.programs import Draft, elementwise, mlp
from tests.runtime.test_steps import variable


@pytest.mark.parametrize(("target", "threads"), [("host", 1), ("host", 2), ("embedded", 1)])
def test_every_step_of_a_run_is_timed(target: str, threads: int, tmp_path: Path) -> None:
    program, expected = mlp()
    write_artifact([program], find_target(target), tmp_path / "mlp", PackageOptions())
    x = np.random.default_rng(0).standard_normal((5, 8), dtype=np.float32)
    with deploykit.open(tmp_path / "mlp", threads=threads, profile=True) as session:
        for _ in range(2):
            np.testing.assert_allclose(session(x=x)["y"], expected(x), rtol=1e-5, atol=1e-6)
            calls, seconds = session.step_times()
            assert calls.tolist() == [1, 1, 1]
            assert (seconds >= 0).all()
            assert 0 < seconds.sum() < 1


def test_steps_in_branches_and_loops_have_the_numbers_of_the_plan(tmp_path: Path) -> None:
    draft = Draft("nested")
    i, count, trips = variable("i"), variable("count"), variable("trips")
    choice, limit = draft.input("choice", "bool", ()), draft.input("limit", "int64", ())
    x, y = draft.input("x", "int64", (2,)), draft.output("y", "int64", (2,))
    rows = draft.output("rows", "int64", (trips, 2))
    double = draft.kernel(elementwise(lambda a: a * 2, "int64", in_place=True), "double")
    program = draft.program(
        BindDim(trips, limit, 0, 0, 20),  # 0
        If(choice, (Copy(y, x), Launch(double, (y, y), (2,))), (Copy(y, x),)),  # 1: 2, 3, else 4
        Reserve("rows", trips * 16, output=1),  # 5
        Loop(i, trips, None, (CopySlice(rows, y, i), Launch(double, (y, y), (2,))), count),  # 6: 7, 8
    )
    write_artifact([program], find_target("host"), tmp_path / "nested", PackageOptions())
    with deploykit.open(tmp_path / "nested", profile=True) as session:
        for chosen, branch in ((True, [1, 1, 0]), (False, [0, 0, 1])):
            result = session(choice=chosen, limit=3, x=np.array([1, 3]))
            assert result["y"].tolist() == [8 * (1 + chosen), 24 * (1 + chosen)]
            assert session.step_times()[0].tolist() == [0, 0, *branch, 0, 0, 3, 3]


def test_only_a_profiled_session_has_times(tmp_path: Path) -> None:
    write_artifact([mlp()[0]], find_target("host"), tmp_path / "mlp", PackageOptions())
    with deploykit.open(tmp_path / "mlp") as session, pytest.raises(UsageError, match="profile=True"):
        session.step_times()
    with pytest.raises(UsageError, match="sanitized"):
        deploykit.open(tmp_path / "mlp", sanitize=True, profile=True)
