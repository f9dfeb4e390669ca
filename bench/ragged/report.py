"""The report of `python -m bench.ragged` (see `bench.tables`).

A ratio is the time of the other side divided by that of the ragged artifact: above 1 the ragged artifact is faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import nan
from pathlib import Path
from typing import Any

from bench.ragged.sides import DENSE, JAGGED, ORT, RAGGED, SIDES, SORTED, TORCH
from bench.tables import bars, mean
from deploykit.checks.benchmark import Timing
from deploykit.cli.console import text_bytes, text_seconds

RATIOS: Mapping[str, tuple[str, ...]] = {
    "best ORT": (ORT, ORT + SORTED),
    "padded ORT": (ORT,),
    "best dense": (DENSE, DENSE + SORTED),
    "PyTorch": (TORCH,),
    "jagged": (JAGGED,),
}
"""What the ragged artifact is compared with: the fastest of some sides."""


@dataclass(frozen=True)
class Row:
    """One batch of a data set with one number of threads. `sizes` are the sizes of small batches that sorted sides
    chose. `arena` and `dense_arena` are the bytes of the arena for ragged and for padded batches; `padding` is the
    growth of operations by padding. `wrong` are sides whose results differ from those of the ragged artifact.
    `counted` are the operations of the ragged artifact, divided by the sum of those of single sequences."""

    model: str
    dataset: str
    batch: int
    threads: int
    tokens: int
    longest: int
    padding: float
    times: Mapping[str, Timing]
    sizes: Mapping[str, int]
    arena: int
    dense_arena: int
    wrong: Sequence[str] = ()
    counted: float | None = None

    def ratio(self, name: str) -> float:
        """One of `RATIOS`; not a number if none of its sides took part."""
        found = [self.times[side].median for side in RATIOS[name] if side in self.times]
        return min(found) / self.times[RAGGED].median if found else nan

    @property
    def label(self) -> str:
        return f"{self.model} {self.dataset} batch={self.batch}, {self.threads} thr."


@dataclass(frozen=True)
class Report:
    """`layers` gives the number of layers of each model. `skipped` says why a peer did not take part, `clock` is one of
    `bench.ragged.timing.CLOCKS`."""

    layers: Mapping[str, int]
    rows: tuple[Row, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    clock: str = "wall"

    @property
    def wrong(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.wrong)

    def facts(self) -> dict[str, Any]:
        return {
            "layers": self.layers,
            "clock": self.clock,
            "skipped": self.skipped,
            "rows": [
                {**asdict(row), "ratios": {name: row.ratio(name) for name in self._ratios()}} for row in self.rows
            ],
        }

    def summary(self) -> list[str]:
        """Geometric means for each model, number of threads and batch size."""
        groups = sorted({(row.model, row.threads, row.batch) for row in self.rows})
        lines = []
        for model, threads, batch in groups:
            rows = [row for row in self.rows if (row.model, row.threads, row.batch) == (model, threads, batch)]
            means = [f"{mean([row.ratio(name) for row in rows]):.2f} against {name}" for name in self._ratios()]
            ahead = sum(row.ratio("best ORT") >= 1 for row in rows) if "best ORT" in self._ratios() else 0
            memory = mean([row.dense_arena / max(row.arena, 1) for row in rows])
            lines.append(
                f"{model}, batch {batch}, {threads} thread(s), {len(rows)} data set(s): geometric means "
                f"{', '.join(means)}; at least as fast as the best of ORT in {ahead} of {len(rows)}; "
                f"the arena is {memory:.2f} times smaller than with padding{_counts(rows)}"
            )
        return lines

    def table(self) -> tuple[list[str], list[list[str]]]:
        columns = ["model", "data set", *(f">{name}" for name in ("batch", "threads", "tokens", "longest", "padding"))]
        sides = self._sides()
        columns += [f">{side.replace(ORT, 'ORT')}" for side in sides]
        columns += [f">over {name}" for name in self._ratios()]
        columns += [">of ideal"] * self._counted()
        columns += [">arena", ">dense arena", "wrong"]
        return columns, [self._cells(row, sides) for row in self.rows]

    def _cells(self, row: Row, sides: Sequence[str]) -> list[str]:
        cells = [row.model, row.dataset, *map(str, (row.batch, row.threads, row.tokens, row.longest))]
        cells.append(f"{row.padding:.2f}")
        cells += [_time(row, side) for side in sides]
        cells += [f"{row.ratio(name):.2f}" for name in self._ratios()]
        cells += ["" if row.counted is None else f"{row.counted:.3f}"] * self._counted()
        return [*cells, text_bytes(row.arena), text_bytes(row.dense_arena), " ".join(row.wrong)]

    def _counted(self) -> bool:
        return any(row.counted is not None for row in self.rows)

    def _sides(self) -> list[str]:
        return [side for side in SIDES if any(side in row.times for row in self.rows)]

    def _ratios(self) -> list[str]:
        return [name for name, sides in RATIOS.items() if any(side in row.times for row in self.rows for side in sides)]

    def notes(self) -> list[str]:
        lines = [f"{model} has {layers} layer(s)" for model, layers in self.layers.items()]
        lines.append(f"times are by the clock '{self.clock}'")
        return lines + [f"without {name}: {why}" for name, why in self.skipped.items()]

    def picture(self, path: Path) -> None:
        found = {row.label: row.ratio("best ORT") for row in self.rows if ORT in row.times}
        bars(found, "time of ONNX Runtime, padded or sorted / time of deploykit, ragged", path)


def _counts(rows: Sequence[Row]) -> str:
    found = [row.counted for row in rows if row.counted is not None]
    return f"; {min(found):.3f} to {max(found):.3f} of the ideal operations" if found else ""


def _time(row: Row, side: str) -> str:
    if side not in row.times:
        return ""
    size = f" ({row.sizes[side]})" if side in row.sizes else ""
    return text_seconds(row.times[side].median) + size
