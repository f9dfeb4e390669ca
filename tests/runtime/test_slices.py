"""Runs in slices of some steps (-DDK_SLICED), and runs that the program's own profiler ends. What slices compute is
checked on the runtime `embedded-sliced`, which executes one step in a call."""

from __future__ import annotations

from pathlib import Path

import deploykit
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.targets.embedded import EmbeddedTarget
from tests.frontends.running_mean import running_mean, weights
from tests.runtime.programs import mlp
from tests.runtime.test_c_sources import compile_and_run, compilers, embedded

TESTS = Path(__file__).parent
ELSEWHERE = "8 a run goes on with the inputs, outputs and arena that it began with"


def printed(compiler: str, test: str, folder: Path, *options: str) -> list[str]:
    sources = sorted(folder.glob("*.c"))
    strict = ("-Wconversion", "-Wshadow", "-DDK_SLICED", *SANITIZERS, *options, f"-I{folder}")
    return compile_and_run(compiler, folder / "run", TESTS / test, *sources, *strict).splitlines()


@compilers
def test_a_run_in_slices(compiler: str, tmp_path: Path) -> None:
    folder = embedded(mlp()[0], tmp_path / "dist")
    assert printed(compiler, "sliced_test.c", folder, "-DDK_PROFILE") == [
        "slice before init: 8 the model is not initialised(0)",
        "init: 0 (0)",
        "run: 0 (3)",
        "first: 11 (1)",
        "second: 11 (1)",
        "third: 0 (1)",
        "same: 1, rows: 2",
        "most: 0 (3)",
        "two: 11 (2)",
        "no steps: 8 steps: at least 1, found 0(0)",
        "no inputs: 8 the inputs are NULL(0)",
        f"other sizes: {ELSEWHERE}(0)",
        f"other outputs: {ELSEWHERE}(0)",
        "another arena: 0 (0)",
        f"in another arena: {ELSEWHERE}(0)",
        "the arena: 0 (0)",
        "goes on: 0 (1)",
        "same: 1",
        "begins: 11 (1)",
        "run between: 0 (3)",
        "begins again: 11 (2)",
        "ended: 13 the run was stopped(1)",
        "run ended: 13 the run was stopped(3)",
        "after the end: 0 (3)",
        "same: 1",
        "a wrong dtype: 2 input 'x': expected float32, found int32(0)",
    ]


@compilers
def test_a_run_that_may_have_changed_states_is_not_given_up(compiler: str, tmp_path: Path) -> None:
    """Only until states change a whole run may take its place."""
    deploykit.build(running_mean(weights()), EmbeddedTarget(), output=tmp_path / "dist")
    lines = printed(compiler, "sliced_states_test.c", tmp_path / "dist")
    changed = "8 a run that goes on may have changed states: call run_steps to its end, or set_state first"
    assert lines == [
        "1 steps: 11, run: 0 ; run after set_state: 0",
        f"2 steps: 11, run: {changed}; run after set_state: 0",
        f"3 steps: 11, run: {changed}; run after set_state: 0",
        "4 steps: 0, run: 0 ; run after set_state: 0",
    ]
