"""Times operators of `apps/ragged/ops.py` next to dense products and to their own padded selves.

    python -m bench.ragged.kernels [--quick] [--large] [--operator NAME] [--batch N] [--data NAME] [--threads N]
                                   [--seconds S] [--clock CLOCK] [--output DIR]

vgemm      Products of random sizes, multiples of 64 in 64..512 (`--large`: of 128 in 512..1408, as in CoRa's paper),
           in one run. `dense` and `ORT` run the same products one after the other: a dense artifact of ours, and ONNX
           Runtime.
trmm       A triangular matrix times a square one. `dense` and `ORT` compute the product with the whole square.
attention  Each token sees itself and the tokens before it, in a batch with the lengths of a data set. `square` computes
           the scores of all pairs of tokens of a sequence, and `padded` those of sequences padded to the longest.

GFLOP/s are the multiplications and additions of a side divided by its median time, of all sides in turn. What the same
calls from Python take at least without work, with instances of length 0 or products of two numbers, is taken off. For
trmm each side has its own operations: half as many for the triangle. For attention they are those of the triangle.
`of X` is the rate of the operator divided by that of X: above 1 the operator is faster.

DIR (default `build/bench-ragged-kernels`) receives `report.md`, `report.json` and `report.png`. Exit code 1 if results
differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import deploykit
from bench.ragged.batches import Arrays
from bench.ragged.kernel_report import CALLS, DENSE, ORT, PADDED, RAGGED, SQUARE, Report, Row
from bench.ragged.lengths import DATASETS, Dataset
from bench.ragged.models import TOLERANCE
from bench.ragged.operators import LONGEST, dense_product, masked_attention, operators
from bench.ragged.timing import CLOCKS, in_turn
from bench.tables import show, write
from deploykit.checks import reference
from deploykit.checks.comparison import compare
from deploykit.cli.console import messages, text_seconds

OPERATORS = ("vgemm", "trmm", "attention")
HEADS, FEATURES = 4, 16
"""The sizes of attention in `apps/ragged/ops.py`."""

NUMBERS = {name: np.ones((1, 1), np.float32) for name in "ab"}
"""The inputs of a product of two numbers."""

Run = Callable[[], Any]
Runner = Callable[[Arrays], Mapping[str, Any]]


@dataclass(frozen=True)
class Sizes:
    """`extents` are the sizes of the products of vgemm, `triangles` those of trmm."""

    extents: Sequence[int]
    triangles: Sequence[int]

    @property
    def longest(self) -> int:
        return max(*self.extents, *self.triangles, LONGEST)


QUICK = Sizes((64, 128), (64,))
SMALL = Sizes(range(64, 513, 64), (128, 256, 512))
LARGE = Sizes(range(512, 1409, 128), (512, 1024, 2048))


@dataclass(frozen=True)
class Plan:
    """What to measure and where the files go."""

    folder: Path
    sizes: Sizes
    operators: tuple[str, ...]
    batches: tuple[int, ...]
    datasets: tuple[str, ...]
    threads: tuple[int, ...]
    seconds: float
    clock: str


@dataclass(frozen=True)
class Line:
    """What becomes a row: the sides, with calls without work, the operations of each side, and the names of sides with
    other results."""

    sizes: str
    sides: Mapping[str, Run]
    work: Mapping[str, float]
    wrong: Sequence[str]


def main() -> int:
    plan = _plan(_arguments())
    plan.folder.mkdir(parents=True, exist_ok=True)
    messages.print("build")
    _build(plan)
    report = Report(clock=plan.clock)
    for threads in plan.threads:
        for name in plan.operators:
            for line in LINES[name](plan, threads):
                times = in_turn(line.sides, plan.seconds, plan.clock)
                row = Row(name, line.sizes, threads, times, line.work, line.wrong)
                messages.print(f"  {row.label}: {text_seconds(times[RAGGED].median)}{' WRONG' if row.wrong else ''}")
                report = replace(report, rows=(*report.rows, row))
                write(report, plan.folder)
    show(report)
    return 1 if report.wrong else 0


def _build(plan: Plan) -> None:
    path = operators(plan.folder, plan.sizes.longest)
    for name in plan.operators:
        deploykit.build(f"{path}:{name}", output=plan.folder / name)
    deploykit.build(masked_attention(), output=plan.folder / SQUARE)
    onnx.save(dense_product(), plan.folder / "dense.onnx")
    bounds = dict.fromkeys("mkn", (1, plan.sizes.longest))
    deploykit.build(plan.folder / "dense.onnx", dims=bounds, output=plan.folder / DENSE)


def _dense(plan: Plan, threads: int) -> dict[str, Runner]:
    """What runs a dense product: inputs `a` and `b`, output `c`."""
    ours = deploykit.open(plan.folder / DENSE, threads=threads)
    return {DENSE: ours.run, ORT: reference.load(plan.folder / "dense.onnx", "onnxruntime", threads)}


def vgemm(plan: Plan, threads: int) -> Iterator[Line]:
    session, others = deploykit.open(plan.folder / "vgemm", threads=threads), _dense(plan, threads)
    for batch in plan.batches:
        rng = np.random.default_rng(batch)
        m, k, n = sizes = rng.choice(plan.sizes.extents, (3, batch)).astype(np.int64)
        pairs = [{"a": _random(rng, *sizes[:2, i]), "b": _random(rng, *sizes[1:, i])} for i in range(batch)]
        flat = {name: np.concatenate([pair[name].reshape(-1) for pair in pairs]) for name in "ab"}
        inputs = {**flat, "m": m, "k": k, "n": n}
        sides = _timed(RAGGED, session.run, [inputs], [_nothing(inputs)])
        for name, runner in others.items():
            sides |= _timed(name, runner, pairs, [NUMBERS] * batch)
        work = dict.fromkeys((RAGGED, *others), 2.0 * (m * k * n).sum())
        found = session.run(inputs)["c"]
        expected = {
            name: np.concatenate([runner(pair)["c"].reshape(-1) for pair in pairs]) for name, runner in others.items()
        }
        text = f"{batch} products of {min(plan.sizes.extents)} to {max(plan.sizes.extents)}"
        yield Line(text, sides, work, _wrong(found, expected))


def trmm(plan: Plan, threads: int) -> Iterator[Line]:
    session, others = deploykit.open(plan.folder / "trmm", threads=threads), _dense(plan, threads)
    for size in plan.sizes.triangles:
        rng = np.random.default_rng(size)
        square, across = np.tril(_random(rng, size, size)), _random(rng, size, size)
        inputs, whole = {"lower": square[np.tril_indices(size)], "dense": across}, {"a": square, "b": across}
        sides = _timed(RAGGED, session.run, [inputs], [{"lower": np.zeros(1, np.float32), "dense": NUMBERS["b"]}])
        for name, runner in others.items():
            sides |= _timed(name, runner, [whole], [NUMBERS])
        work = {RAGGED: float(size * (size + 1) * size), **dict.fromkeys(others, 2.0 * size**3)}
        expected = {name: run(whole)["c"] for name, run in others.items()}
        yield Line(str(size), sides, work, _wrong(session.run(inputs)["product"], expected))


def attention(plan: Plan, threads: int) -> Iterator[Line]:
    session, square = (deploykit.open(plan.folder / name, threads=threads) for name in ("attention", SQUARE))
    for dataset, batch in ((DATASETS[name], batch) for name in plan.datasets for batch in plan.batches):
        yield _attention(dataset, batch, session.run, square.run)


def _attention(dataset: Dataset, batch: int, triangle: Runner, square: Runner) -> Line:
    rng, lengths = np.random.default_rng(batch), dataset.typical(batch)
    longest = int(lengths.max())
    names = ("query", "key", "value")
    padded = {name: _random(rng, batch, longest, HEADS, FEATURES) for name in names}
    valid = np.arange(longest) < lengths[:, None]
    inputs = {**{name: array[valid] for name, array in padded.items()}, "lengths": lengths}
    flat = {name: array.reshape(-1, HEADS, FEATURES) for name, array in padded.items()}
    whole = {**flat, "lengths": np.full_like(lengths, longest)}
    nothing = [_nothing(inputs)]
    sides = _timed(RAGGED, triangle, [inputs], nothing) | _timed(SQUARE, square, [inputs], nothing)
    sides |= _timed(PADDED, square, [whole], nothing)
    everywhere = square(whole)["attended"].values.reshape(batch, longest, HEADS, FEATURES)
    expected = {SQUARE: square(inputs)["attended"].values, PADDED: everywhere[valid]}
    work = dict.fromkeys((RAGGED, SQUARE, PADDED), 2.0 * HEADS * FEATURES * (lengths * (lengths + 1)).sum())
    text = f"{dataset.name} batch={batch}"
    return Line(text, sides, work, _wrong(triangle(inputs)["attended"].values, expected))


LINES: Mapping[str, Callable[[Plan, int], Iterator[Line]]] = {"vgemm": vgemm, "trmm": trmm, "attention": attention}


def _random(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _nothing(inputs: Arrays) -> Arrays:
    """The same number of instances, all of length 0."""
    return {name: array[:0] if array.dtype.kind == "f" else np.zeros_like(array) for name, array in inputs.items()}


def _timed(name: str, runner: Runner, inputs: Sequence[Arrays], nothing: Sequence[Arrays]) -> dict[str, Run]:
    """A side, and its calls without work."""
    return {name: partial(_all, runner, inputs), name + CALLS: partial(_all, runner, nothing)}


def _all(runner: Runner, inputs: Sequence[Arrays]) -> None:
    for arrays in inputs:
        runner(arrays)


def _wrong(found: Any, expected: Mapping[str, np.ndarray]) -> list[str]:
    """The sides whose results are not those of the operator."""
    values = np.asarray(getattr(found, "values", found))
    return [
        name
        for name, array in expected.items()
        if not compare("result", array.reshape(-1), values.reshape(-1), TOLERANCE).within
    ]


def _plan(given: argparse.Namespace) -> Plan:
    """The plan of the arguments. `--quick` changes the defaults."""
    quick = given.quick
    return Plan(
        given.output,
        LARGE if given.large else QUICK if quick else SMALL,
        tuple(given.operator or OPERATORS),
        tuple(given.batch or ((2,) if quick else (8, 32))),
        tuple(given.data or (("CoLA",) if quick else DATASETS)),
        tuple(given.threads or ((1,) if quick else (1, 2))),
        given.seconds or (0.2 if quick else 3.0),
        given.clock,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ragged.kernels", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add: Any = parser.add_argument
    add("--quick", action="store_true", help="small sizes and few runs, to see that it works")
    add("--large", action="store_true", help="the sizes of CoRa's paper")
    add("--operator", action="append", choices=OPERATORS, help="default: all")
    add("--batch", type=int, action="append", metavar="N", help="at most 64 (default: 8 and 32)")
    add("--data", action="append", choices=tuple(DATASETS), help="lengths of attention (default: all)")
    add("--threads", type=int, action="append", metavar="N", help="default: 1 and 2")
    add("--seconds", type=float, help="for each line of the table (default: 3)")
    add("--clock", choices=tuple(CLOCKS), default="wall", help="cpu: computing time, for one thread on a busy machine")
    add("--output", type=Path, default=Path("build/bench-ragged-kernels"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
