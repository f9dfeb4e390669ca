"""The reports of `python -m bench.dynamic` (see `bench.tables`): batches of instances, and techniques in turn.

A ratio is the time of the other side divided by ours: above 1 the artifact is faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any

from bench.tables import bars, mean
from deploykit.cli.console import text_bytes, text_seconds

OURS, ALONE, TORCH, DYNET, EDBATCH = "ours", "alone", "pytorch", "DyNet ", "ED-Batch "
"""The sides; those of DyNet and ED-Batch have the strategy behind it."""


@dataclass(frozen=True)
class Row:
    """A batch of instances of a model. `times` are seconds by side, `launches` those of our policy, and `bound` the
    fewest that any policy needs. `encoding` is the time to encode the instances in Python, `overhead` the seconds that
    are not kernels. `words` and `pool` are bytes. `errors` are the largest relative differences of sides from the
    source that runs in Python, and `wrong` are the sides where they are more than rounding."""

    model: str
    hidden: int
    batch: int
    threads: int
    policy: str
    times: Mapping[str, float]
    encoding: float
    nodes: int
    launches: int
    bound: int
    overhead: float
    words: int
    pool: int
    errors: Mapping[str, float] = field(default_factory=dict)
    wrong: Sequence[str] = ()

    @property
    def label(self) -> str:
        return f"{self.model} hidden={self.hidden} batch={self.batch}, {self.threads} thr."

    def fastest(self, peer: str) -> str | None:
        """The fastest side of a peer, `DYNET` or `EDBATCH`, among those with right results."""
        sides = [side for side in self.times if side.startswith(peer) and side not in self.wrong]
        return min(sides, key=self.times.__getitem__, default=None)

    def ratio(self, side: str | None) -> float:
        return nan if side is None or side not in self.times else self.times[side] / self.times[OURS]


@dataclass(frozen=True)
class Report:
    """`clock` is one of `bench.ragged.timing.CLOCKS`; `skipped` says why a peer did not take part."""

    rows: tuple[Row, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    clock: str = "wall"

    @property
    def wrong(self) -> tuple[Row, ...]:
        """The rows with a wrong result of ours."""
        return tuple(row for row in self.rows if {OURS, ALONE} & set(row.wrong))

    @property
    def edbatch(self) -> bool:
        """Whether ED-Batch took part."""
        return any(side.startswith(EDBATCH) for row in self.rows for side in row.times)

    def facts(self) -> dict[str, Any]:
        rows = [{**asdict(row), "ratios": {side: row.ratio(side) for side in row.times}} for row in self.rows]
        return {"clock": self.clock, "skipped": self.skipped, "rows": rows}

    def table(self) -> tuple[list[str], list[list[str]]]:
        columns = ["model", *(f">{name}" for name in ("hidden", "batch", "threads", "ours")), "policy"]
        columns += [">launches", ">least", ">over DyNet", "its strategy"]
        columns += [">over ED-Batch"] * self.edbatch
        columns += [">over unbatched", ">over PyTorch", ">encoding", ">not kernels", ">words", ">pool", "wrong"]
        return columns, [_cells(row, self.edbatch) for row in self.rows]

    def summary(self) -> list[str]:
        lines = []
        for model in dict.fromkeys(row.model for row in self.rows):
            rows = [row for row in self.rows if row.model == model]
            named = {peer.strip(): [row.ratio(row.fastest(peer)) for row in rows] for peer in (DYNET, EDBATCH)}
            named |= {"unbatched": [row.ratio(ALONE) for row in rows], "PyTorch": [row.ratio(TORCH) for row in rows]}
            parts = []
            for name, ratios in named.items():
                known = [ratio for ratio in ratios if not isnan(ratio)]
                if known:
                    parts.append(f"{mean(known):.2f} over {name} (least {min(known):.2f})")
            lines.append(f"{model}, {len(rows)} batch(es): geometric means {', '.join(parts)}")
        return lines

    def notes(self) -> list[str]:
        lines = [f"times are by the clock '{self.clock}'"]
        for row in self.rows:
            lines += [f"{row.label}: {side} differs by {row.errors[side]:.0e}" for side in row.wrong]
        return lines + [f"without {name}: {why}" for name, why in self.skipped.items()]

    def picture(self, path: Path) -> None:
        found = {row.label: row.ratio(row.fastest(DYNET) or ALONE) for row in self.rows}
        bars(found, "time of DyNet, else of each node alone / time of deploykit", path)


def _cells(row: Row, edbatch: bool) -> list[str]:
    best = row.fastest(DYNET)
    cells = [row.model, *map(str, (row.hidden, row.batch, row.threads)), text_seconds(row.times[OURS]), row.policy]
    cells += [str(row.launches), str(row.bound), _ratio(row, best), (best or "").removeprefix(DYNET)]
    cells += [_ratio(row, row.fastest(EDBATCH))] * edbatch
    cells += [_ratio(row, ALONE), _ratio(row, TORCH), text_seconds(row.encoding)]
    cells += [f"{min(row.overhead / row.times[OURS], 1):.0%}", text_bytes(row.words), text_bytes(row.pool)]
    return [*cells, ", ".join(row.wrong)]


def _ratio(row: Row, side: str | None) -> str:
    ratio = row.ratio(side)
    return "" if isnan(ratio) else f"{ratio:.2f}"


@dataclass(frozen=True)
class Technique:
    """A run in which one technique is replaced; `times` of the run with all of them is in the first of a batch."""

    model: str
    hidden: int
    batch: int
    name: str
    seconds: float
    launches: int
    slower: float


@dataclass(frozen=True)
class Ablation:
    rows: tuple[Technique, ...] = ()
    clock: str = "wall"

    def facts(self) -> dict[str, Any]:
        return {"clock": self.clock, "rows": [asdict(row) for row in self.rows]}

    def table(self) -> tuple[list[str], list[list[str]]]:
        columns = ["model", ">hidden", ">batch", "technique", ">time", ">launches", ">times as long"]
        return columns, [_technique(row) for row in self.rows]

    def summary(self) -> list[str]:
        return [
            f"{name}: {mean([row.slower for row in self.rows if row.name == name]):.2f} times as long"
            for name in dict.fromkeys(row.name for row in self.rows)
        ]

    def notes(self) -> list[str]:
        return [f"times are by the clock '{self.clock}'"]

    def picture(self, path: Path) -> None:
        found = {f"{row.model} {row.hidden} x {row.batch}, {row.name}": row.slower for row in self.rows}
        bars(found, "times as long as with all techniques", path)


def _technique(row: Technique) -> list[str]:
    cells = [*map(str, (row.model, row.hidden, row.batch)), row.name]
    return [*cells, text_seconds(row.seconds), str(row.launches), f"{row.slower:.2f}"]
