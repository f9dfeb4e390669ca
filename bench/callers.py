"""`make bench-callers`: threads that call one session at the same time, next to ONNX Runtime's session.

    python -m bench.callers [--quick] [--filter NAME] [--callers N ...] [--seconds S] [--output DIR]

A line is a model of `bench.cases` at its first sizes with a batch of 1, and a number of callers, which do nothing else.
It has the calls per second of both sides, and the median and the 95 % quantile of the time of a call, measured in turn.
Both sessions have one thread for the loops of a run. `ratio` is our calls per second divided by the peer's: above 1 we
are faster. `alone` is our calls per second divided by those of one caller. DIR (default `build/bench-callers`) receives
the table as `report.md`, `report.json` and `report.png`.

Exit code 1 if results differ from those of ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

import deploykit
from bench.cases import GENERATED, Case
from bench.tables import bars, mean, show, write
from bench.worker import inputs_of
from deploykit.checks.comparison import compare
from deploykit.checks.crowds import Load, crowded
from deploykit.checks.reference import load
from deploykit.cli.console import messages, text_seconds

QUICK = ("mlp", "cnn")


@dataclass(frozen=True)
class Row:
    """`alone` is our load with one caller."""

    model: str
    callers: int
    ours: Load
    peer: Load
    alone: Load

    @property
    def ratio(self) -> float:
        return self.ours.per_second / self.peer.per_second


@dataclass(frozen=True)
class Report:
    rows: tuple[Row, ...]

    def facts(self) -> dict[str, Any]:
        return {"rows": [{**asdict(row), "ratio": row.ratio} for row in self.rows]}

    def table(self) -> tuple[list[str], list[list[str]]]:
        sides = [name for side in ("deploykit", "ORT") for name in (f">{side}", ">median", ">95 %")]
        return ["model", ">callers", *sides, ">ratio", ">alone"], [_cells(row) for row in self.rows]

    def summary(self) -> list[str]:
        lines = []
        for callers in sorted({row.callers for row in self.rows}):
            ratios = [row.ratio for row in self.rows if row.callers == callers]
            ahead = f"{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)}"
            lines.append(
                f"{callers} callers, against ONNX Runtime: geometric mean {mean(ratios):.2f}, at least as many calls "
                f"in {ahead} lines, least {min(ratios):.2f}"
            )
        return lines

    def notes(self) -> list[str]:
        return ["deploykit, ORT: calls per second of all callers"]

    def picture(self, path: Path) -> None:
        ratios = {f"{row.model}, {row.callers} callers": row.ratio for row in self.rows}
        bars(ratios, "calls per second of deploykit / those of ONNX Runtime", path)


def _cells(row: Row) -> list[str]:
    cells = [row.model, str(row.callers)]
    for load_of in (row.ours, row.peer):
        cells += [f"{load_of.per_second:.4g}", text_seconds(load_of.median), text_seconds(load_of.p95)]
    return [*cells, f"{row.ratio:.2f}", f"{row.ours.per_second / row.alone.per_second:.2f}"]


def main() -> int:
    given = _arguments()
    cases = [case for case in GENERATED if not given.filter or any(text in case.name for text in given.filter)]
    if given.quick and not given.filter:
        cases = [case for case in cases if case.name in QUICK]
    given.output.mkdir(parents=True, exist_ok=True)
    report, wrong = Report(()), False
    seconds = given.seconds or (0.2 if given.quick else 6.0)
    for case in cases:
        for row in measured(case, given.callers or [2, 8], seconds, given.output):
            if row is None:
                wrong = True
            else:
                report = Report((*report.rows, row))
        if report.rows:
            write(report, given.output)
    show(report)
    return 1 if wrong else 0


def measured(case: Case, callers: list[int], seconds: float, folder: Path) -> Iterator[Row | None]:
    """The rows of a model; None if the results differ."""
    model, artifact = folder / f"{case.name}.onnx", folder / case.name
    with messages.status(f"measuring {case.name}"):
        onnx.save(case.make(), model)
        deploykit.build(model, dims=case.dims, output=artifact)
        peer = load(model, timed=True)
        with deploykit.open(artifact) as session:
            inputs = inputs_of(case, session.manifest, case.single)
            ours, theirs = session.run(inputs), peer(inputs)
            if not all(compare(name, ours[name], theirs[name], case.tolerance).within for name in ours):
                messages.print(f"{case.name}: results differ from those of ONNX Runtime")
                yield None
                return
            (alone,) = crowded({"deploykit": lambda: session.run(inputs)}, 1, seconds / 3)
            for count in callers:
                sides = {"deploykit": lambda: session.run(inputs), "onnxruntime": lambda: peer(inputs)}
                loads = crowded(sides, count, seconds)
                yield Row(case.name, count, loads[0], loads[1], alone)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two models, short runs")
    parser.add_argument("--filter", action="append", help="only models whose name contains this")
    parser.add_argument("--callers", type=int, action="append", help="numbers of callers, by default 2 and 8")
    parser.add_argument("--seconds", type=float, help="for each line")
    parser.add_argument("--output", type=Path, default=Path("build") / "bench-callers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
