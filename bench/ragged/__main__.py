"""`make bench-ragged`: times encoders on batches of sequences of different lengths, without and with padding.

    python -m bench.ragged [--quick] [--model NAME] [--data NAME] [--batch N] [--threads N] [--layers N] [--seconds S]
                           [--clock CLOCK] [--peers NAME] [--count] [--output DIR]

A line is a batch with the lengths of a data set (`bench.ragged.lengths`), run by a model with some number of threads.
`bench.ragged.sides` lists the columns of times: medians, of all sides in turn. In brackets is the size of the small
batches that a sorted side has chosen. `padding` is how many times the operations grow if each sequence is padded to the
longest. `over X` is the time of X divided by that of the ragged artifact: above 1 that is faster. `best ORT` is the
faster of padded and sorted, `best dense` the same of our artifact without ragged dims. With `--count`, `of ideal` are
the floating-point operations that the ragged artifact executes for the batch, counted by valgrind, divided by the sum
of those for each sequence alone; this takes minutes for large batches.

DIR (default `build/bench-ragged`) receives `report.md`, `report.json` and `report.png`. Exit code 1 if results differ.
`bench.ragged.kernels` and `bench.ragged.web` have commands of their own, for single operators and for web packages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

import deploykit
from bench.ragged.arithmetic import Arithmetic, missing
from bench.ragged.batches import batch_of
from bench.ragged.lengths import DATASETS, Dataset, padding
from bench.ragged.models import DEFAULT, MODELS, Model
from bench.ragged.report import Report, Row
from bench.ragged.sides import DENSE, OTHERS, RAGGED, Sides, load, runs, wrong
from bench.ragged.timing import CLOCKS, in_turn
from bench.tables import show, write
from deploykit.cli.console import messages, text_seconds

BATCHES = (8, 32, 128)


@dataclass(frozen=True)
class Plan:
    """What to measure and where the files go."""

    folder: Path
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    batches: tuple[int, ...]
    threads: tuple[int, ...]
    layers: int | None
    seconds: float
    peers: tuple[str, ...]
    clock: str
    count: bool


def main() -> int:
    plan = _plan(_arguments())
    plan.folder.mkdir(parents=True, exist_ok=True)
    report = Report({name: plan.layers or MODELS[name].layers for name in plan.models}, clock=plan.clock)
    for name in plan.models:
        for rows, skipped in measure(MODELS[name], plan):
            report = replace(report, rows=(*report.rows, *rows), skipped={**report.skipped, **skipped})
            write(report, plan.folder)
    show(report)
    return 1 if report.wrong else 0


def measure(model: Model, plan: Plan) -> Iterator[tuple[list[Row], dict[str, str]]]:
    """Measure one model; yields the rows of each batch, and why peers did not take part."""
    folder = plan.folder / model.name
    folder.mkdir(exist_ok=True)
    path = folder / f"{model.name}.onnx"
    onnx.save(model.make(plan.layers or model.layers), path)
    messages.print(f"{model.name}: build")
    dims = {
        "batch": (1, max(plan.batches)),
        "seq": (1, max(DATASETS[name].longest for name in plan.datasets)),
    }
    deploykit.build(path, dims=dims, output=folder / DENSE)
    deploykit.build(path, dims=dims, output=folder / RAGGED, ragged={"seq": "batch"})
    shares, uncounted = _shares(model, path, dims, plan)
    for threads in plan.threads:
        sides = load(path, folder / RAGGED, folder / DENSE, plan.peers, threads)
        for name in plan.datasets:
            for batch in plan.batches:
                row = _row(model, DATASETS[name], batch, threads, sides, plan)
                yield [replace(row, counted=shares.get((name, batch)))], {**sides.skipped, **uncounted}


def _shares(
    model: Model, path: Path, dims: Mapping[str, tuple[int, int]], plan: Plan
) -> tuple[dict[tuple[str, int], float], dict[str, str]]:
    """The counted operations of each batch, divided by the ideal, or why they are not counted."""
    if not plan.count:
        return {}, {}
    reason = missing()
    if reason is not None:
        return {}, {"counts": reason}
    counter, shares = Arithmetic(model, path, dims, plan.folder / model.name), {}
    for name in plan.datasets:
        for batch in plan.batches:
            messages.print(f"{model.name}: count operations, {name} batch={batch}")
            shares[name, batch] = counter.share(DATASETS[name].typical(batch))
    return shares, {}


def _row(model: Model, dataset: Dataset, count: int, threads: int, sides: Sides, plan: Plan) -> Row:
    batch = batch_of(model, dataset.typical(count))
    tokens, longest = int(batch.lengths.sum()), int(batch.lengths.max())
    differing = wrong(sides, batch, model)
    functions, chosen = runs(sides, batch, plan.clock)
    row = Row(
        *(model.name, dataset.name, count, threads, tokens, longest, padding(batch.lengths)),
        in_turn(functions, plan.seconds, plan.clock),
        chosen,
        sides.ragged.peak_bytes({"batch": count, "tokens": tokens}),
        sides.dense.peak_bytes({"batch": count, "seq": longest}),
        differing,
    )
    times = ", ".join(f"{side} {text_seconds(timing.median)}" for side, timing in row.times.items())
    messages.print(f"  {row.label}: {times}{' WRONG' if row.wrong else ''}")
    return row


def _plan(given: argparse.Namespace) -> Plan:
    """The plan of the arguments. `--quick` changes the defaults."""
    quick = given.quick
    return Plan(
        given.output,
        tuple(given.model or DEFAULT[:1] if quick else given.model or DEFAULT),
        tuple(given.data or (("CoLA",) if quick else DATASETS)),
        tuple(given.batch or ((4,) if quick else BATCHES)),
        tuple(given.threads or ((1,) if quick else (1, 2))),
        given.layers or (1 if quick else None),
        given.seconds or (0.5 if quick else 6.0),
        tuple(given.peers or OTHERS),
        given.clock,
        given.count,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ragged", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add: Any = parser.add_argument
    add("--quick", action="store_true", help="one layer, one data set and a small batch, to see that it works")
    add("--model", action="append", choices=tuple(MODELS), help=f"default: {', '.join(DEFAULT)}")
    add("--data", action="append", choices=tuple(DATASETS), help="default: all")
    add("--batch", type=int, action="append", metavar="N", help="default: 8, 32 and 128")
    add("--threads", type=int, action="append", metavar="N", help="default: 1 and 2")
    add("--layers", type=int, metavar="N", help="default: those of the model")
    add("--seconds", type=float, help="for each line of the table (default: 6)")
    add("--clock", choices=tuple(CLOCKS), default="wall", help="cpu: computing time, for one thread on a busy machine")
    add("--peers", action="append", choices=OTHERS, help="default: all")
    add("--count", action="store_true", help="count operations, which needs valgrind and objdump")
    add("--output", type=Path, default=Path("build/bench-ragged"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
