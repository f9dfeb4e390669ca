"""The report of `python -m bench` (see `bench.tables`).

`ratio` is always the peer's median time divided by ours: above 1 we are faster. `best` is the ratio to the fastest peer
of a row, if there are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.peers import PEERS
from bench.tables import bars, mean
from bench.worker import OURS, STATIC
from deploykit.checks.benchmark import Timing
from deploykit.cli.console import text_bytes, text_seconds


@dataclass(frozen=True)
class Row:
    """One model at one choice of sizes and threads. `times` are by side; `wrong` are sides that differ from ours."""

    model: str
    sizes: Mapping[str, int]
    threads: int
    times: Mapping[str, Timing]
    wrong: Sequence[str] = ()

    def ratio(self, side: str) -> float | None:
        """The side's time divided by ours."""
        return self.times[side].median / self.times[OURS].median if side in self.times else None

    def best(self) -> str | None:
        """The fastest of the peers with correct results."""
        peers = [side for side in PEERS if side in self.times and side not in self.wrong]
        return min(peers, key=lambda side: self.times[side].median, default=None)

    @property
    def label(self) -> str:
        return " ".join([self.model, *(f"{name}={size}" for name, size in self.sizes.items())])


@dataclass(frozen=True)
class Model:
    """The facts about a model that do not depend on sizes. `memory` gives, by side, the growth of peak resident memory
    in a process that runs the model at all sizes on one thread. `skipped` says why a peer did not take part.
    """

    name: str
    build_seconds: float
    artifact_bytes: int
    memory: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    models: tuple[Model, ...]
    rows: tuple[Row, ...]

    @property
    def wrong(self) -> tuple[Row, ...]:
        """The rows in which ONNX Runtime has other results than ours."""
        return tuple(row for row in self.rows if "onnxruntime" in row.wrong)

    def facts(self) -> dict[str, Any]:
        return {
            "models": [asdict(model) for model in self.models],
            "rows": [
                {
                    **asdict(row),
                    "ratios": {side: row.ratio(side) for side in row.times if side in PEERS},
                    "best": row.best(),
                    "dynamic_to_static": _inverse(row.ratio(STATIC)),
                }
                for row in self.rows
            ],
        }

    def summary(self) -> list[str]:
        lines = []
        for threads in sorted({row.threads for row in self.rows}):
            rows = [row for row in self.rows if row.threads == threads]
            opponents = [(peer.title, [row.ratio(side) for row in rows]) for side, peer in PEERS.items()]
            if len(self._sides()) > 1:
                opponents.append(("the best peer of each line", [_best_ratio(row) for row in rows]))
            for title, found in opponents:
                ratios = [ratio for ratio in found if ratio is not None]
                if ratios:
                    ahead = f"{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)}"
                    lines.append(
                        f"{threads} thread(s), against {title}: geometric mean {mean(ratios):.2f}, at least as "
                        f"fast in {ahead} lines, least {min(ratios):.2f}"
                    )
        dynamic = [1 / r for row in self.rows if (r := row.ratio(STATIC)) is not None]
        if dynamic:
            lines.append(
                f"symbolic dims take {mean(dynamic):.3f} of the time of exact sizes in the geometric mean, "
                f"{max(dynamic):.2f} at worst"
            )
        return lines

    def table(self) -> tuple[list[str], list[list[str]]]:
        sides = self._sides()
        columns = ["model", *(f">{name}" for name in ("sizes", "threads", "deploykit", "dynamic/static"))]
        columns += [name for side in sides for name in (f">{PEERS[side].short}", ">ratio")]
        columns += [">best"] * (len(sides) > 1)
        columns += [">memory", ">memory of ORT", ">build", ">artifact"]
        models = {model.name: model for model in self.models}
        return columns, [self._cells(row, models[row.model], sides) for row in self.rows]

    def _sides(self) -> list[str]:
        """The peers that took part."""
        return [side for side in PEERS if any(side in row.times for row in self.rows)]

    def _cells(self, row: Row, model: Model, sides: Sequence[str]) -> list[str]:
        sizes = " ".join(map(str, row.sizes.values()))
        cells = [row.model, sizes, str(row.threads), text_seconds(row.times[OURS].median)]
        cells.append(_number(_inverse(row.ratio(STATIC))))
        for side in sides:
            found = row.times.get(side)
            wrong = " WRONG" if side in row.wrong else ""
            cells += [text_seconds(found.median) if found else "", _number(row.ratio(side)) + wrong]
        if len(sides) > 1:
            best = row.best()
            cells.append("" if best is None else f"{_number(row.ratio(best))} {PEERS[best].short}")
        cells += [_bytes(model.memory.get(side)) for side in (OURS, "onnxruntime")]
        return [*cells, text_seconds(model.build_seconds), text_bytes(model.artifact_bytes)]

    def notes(self) -> list[str]:
        dims = {row.model: ", ".join(row.sizes) for row in self.rows if row.sizes}
        lines = [f"sizes of {model}: {names}" for model, names in dims.items()]
        for model in self.models:
            lines += [f"{PEERS[side].title} did not run {model.name}: {why}" for side, why in model.skipped.items()]
        return lines

    def picture(self, path: Path) -> None:
        """Draw the ratio to ONNX Runtime of each row as a bar."""
        found = {
            f"{row.label}, {row.threads} thr.": ratio
            for row in self.rows
            if (ratio := row.ratio("onnxruntime")) is not None
        }
        bars(found, "time of ONNX Runtime / time of deploykit", path)


def _best_ratio(row: Row) -> float | None:
    best = row.best()
    return None if best is None else row.ratio(best)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _bytes(value: int | None) -> str:
    return "" if value is None else text_bytes(value)


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value
