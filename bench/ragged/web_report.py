"""The report of `python -m bench.ragged.web` (see `bench.tables`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.tables import bars, mean

RAGGED, PADDED, SORTED = "ragged", "padded", "sorted"
TOLERANCE = 1e-3
"""The largest allowed difference of an element, relative to 1 plus its magnitude."""


@dataclass(frozen=True)
class Row:
    """One batch of a data set on a device. `times` are milliseconds, `size` that of the small batches of the sorted
    side. `padding` is the growth of operations by padding."""

    dataset: str
    batch: int
    on: str
    tokens: int
    longest: int
    padding: float
    times: Mapping[str, float]
    size: int | None
    error: float

    @property
    def best(self) -> float:
        """The time of the fastest side of onnxruntime-web, divided by ours."""
        return min(self.ratio(side) for side in (PADDED, SORTED) if side in self.times)

    @property
    def label(self) -> str:
        return f"{self.dataset} batch={self.batch}, {self.on}"

    def ratio(self, side: str) -> float:
        return self.times[side] / self.times[RAGGED]


@dataclass(frozen=True)
class Report:
    """`failed` says why there is no row for a batch."""

    model: str
    layers: int
    rows: tuple[Row, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        return bool(self.failed) or any(not row.error <= TOLERANCE for row in self.rows)

    def facts(self) -> dict[str, Any]:
        rows = [{**asdict(row), "best": row.best} for row in self.rows]
        return {"model": self.model, "layers": self.layers, "failed": self.failed, "rows": rows}

    def table(self) -> tuple[list[str], list[list[str]]]:
        columns = ["data set", "on", *(f">{name}" for name in ("batch", "tokens", "longest", "padding"))]
        columns += [">ragged", ">ORT padded", ">ORT sorted", ">over padded", ">over best", ">error"]
        return columns, [_cells(row) for row in self.rows]

    def summary(self) -> list[str]:
        lines = []
        for place in dict.fromkeys(row.on for row in self.rows):
            rows = [row for row in self.rows if row.on == place]
            best, padded = [row.best for row in rows], [row.ratio(PADDED) for row in rows]
            lines.append(
                f"{place}, {len(rows)} line(s): geometric means {mean(best):.2f} against the best of onnxruntime-web "
                f"(least {min(best):.2f}), {mean(padded):.2f} against padded"
            )
        return [*lines, *self.failed]

    def notes(self) -> list[str]:
        return [f"{self.model} with {self.layers} layer(s)"]

    def picture(self, path: Path) -> None:
        bars({row.label: row.best for row in self.rows}, "time of the best of onnxruntime-web / time of ragged", path)


def _cells(row: Row) -> list[str]:
    size = f" ({row.size})" if row.size else ""
    cells = [row.dataset, row.on, *map(str, (row.batch, row.tokens, row.longest)), f"{row.padding:.2f}"]
    cells += [f"{row.times[side]:.1f} ms" if side in row.times else "" for side in (RAGGED, PADDED, SORTED)]
    cells[-1] += size
    return [*cells, f"{row.ratio(PADDED):.2f}", f"{row.best:.2f}", f"{row.error:.0e}"]
