"""The report of `python -m bench.ragged.kernels` (see `bench.tables`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.tables import bars, mean
from deploykit.checks.benchmark import Timing
from deploykit.cli.console import text_seconds

RAGGED, DENSE, ORT, SQUARE, PADDED = "ragged", "dense", "onnxruntime", "square", "padded"
OTHERS = (DENSE, ORT, SQUARE, PADDED)
CALLS = " calls"
"""`dense calls` are the calls of `dense` without work. What they take at least is taken off the time of `dense`."""


@dataclass(frozen=True)
class Row:
    """One operator with some sizes and number of threads. `work` are the floating-point operations of each side,
    `wrong` the sides whose results differ."""

    operator: str
    sizes: str
    threads: int
    times: Mapping[str, Timing]
    work: Mapping[str, float]
    wrong: Sequence[str] = ()

    def rate(self, side: str) -> float:
        """Floating-point operations per second."""
        return self.work[side] / self.seconds(side)

    def seconds(self, side: str) -> float:
        """The time without calls."""
        calls = self.times.get(side + CALLS)
        return self.times[side].median - (calls.fastest if calls else 0)

    def ratio(self, side: str) -> float | None:
        """The rate of the operator divided by that of a side."""
        return self.rate(RAGGED) / self.rate(side) if side in self.times else None

    @property
    def label(self) -> str:
        return f"{self.operator} {self.sizes}, {self.threads} thr."


@dataclass(frozen=True)
class Report:
    """`clock` is one of `bench.ragged.timing.CLOCKS`."""

    rows: tuple[Row, ...] = ()
    clock: str = "wall"

    @property
    def wrong(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.wrong)

    def facts(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "rows": [
                {
                    **asdict(row),
                    "rates": {side: row.rate(side) for side in row.work},
                    "ratios": {side: row.ratio(side) for side in row.work if side != RAGGED},
                }
                for row in self.rows
            ],
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        sides = self._sides()
        columns = ["operator", "sizes", ">threads", ">time", ">GFLOP/s"]
        columns += [name for side in sides for name in (f">{_short(side)}", f">of {_short(side)}")]
        return [*columns, "wrong"], [self._cells(row, sides) for row in self.rows]

    def summary(self) -> list[str]:
        lines = []
        for operator, threads in dict.fromkeys((row.operator, row.threads) for row in self.rows):
            rows = [row for row in self.rows if (row.operator, row.threads) == (operator, threads)]
            found = {side: [ratio for row in rows if (ratio := row.ratio(side)) is not None] for side in OTHERS}
            means = [
                f"{mean(ratios):.2f} of {_short(side)} (least {min(ratios):.2f})"
                for side, ratios in found.items()
                if ratios
            ]
            lines.append(f"{operator}, {threads} thread(s), {len(rows)} line(s): geometric means {', '.join(means)}")
        return lines

    def notes(self) -> list[str]:
        return [f"times are by the clock '{self.clock}'"]

    def picture(self, path: Path) -> None:
        found = {row.label: row.ratio(side) for row in self.rows for side in (DENSE, SQUARE) if side in row.times}
        bars({label: ratio for label, ratio in found.items() if ratio}, "rate / rate of dense or square", path)

    def _sides(self) -> list[str]:
        return [side for side in OTHERS if any(side in row.times for row in self.rows)]

    def _cells(self, row: Row, sides: Sequence[str]) -> list[str]:
        cells = [row.operator, row.sizes, str(row.threads), text_seconds(row.seconds(RAGGED))]
        cells.append(f"{row.rate(RAGGED) / 1e9:.1f}")
        for side in sides:
            ratio = row.ratio(side)
            cells += ["", ""] if ratio is None else [f"{row.rate(side) / 1e9:.1f}", f"{ratio:.2f}"]
        return [*cells, " ".join(row.wrong)]


def _short(side: str) -> str:
    return side.replace(ORT, "ORT")
