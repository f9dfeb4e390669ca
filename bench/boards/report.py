"""What was seen of models on boards, as a table, a picture and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.tables import bars, mean

OURS = "deploykit"


@dataclass(frozen=True)
class Figures:
    """A side on a core: instructions of a run and bytes, as `image.Seen` has them. `difference` is the largest from
    ONNX Runtime's output, in steps for integers; `right` is whether that is allowed."""

    instructions: int
    code: int
    constants: int
    ram: int
    stack: int
    difference: float
    right: bool


@dataclass
class Row:
    """A model on a core: figures by side, and why other sides have none."""

    core: str
    model: str
    dtype: str
    sides: dict[str, Figures] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)

    def ratio(self, side: str) -> float | None:
        """How many more instructions a side executes than ours, if both are right."""
        ours, peer = self.sides.get(OURS), self.sides.get(side)
        if ours is None or peer is None or not (ours.right and peer.right):
            return None
        return peer.instructions / ours.instructions


@dataclass(frozen=True)
class Report:
    """The rows of all cores; `peers` are the titles of the other sides, and `compilers` what compiled all sides."""

    rows: Sequence[Row]
    peers: Sequence[str]
    compilers: Sequence[str] = ()

    @property
    def wrong(self) -> bool:
        """Whether one of our results is."""
        return any(OURS in row.sides and not row.sides[OURS].right for row in self.rows)

    def facts(self) -> dict[str, Any]:
        ratios = [{peer: row.ratio(peer) for peer in self.peers} for row in self.rows]
        rows = [{**asdict(row), "ratios": found} for row, found in zip(self.rows, ratios, strict=True)]
        return {"compilers": list(self.compilers), "rows": rows}

    def table(self) -> tuple[list[str], list[list[str]]]:
        columns = ["core", "model", "dtype", f">{OURS}"]
        columns += [name for peer in self.peers for name in (f">{peer}", ">ratio")]
        columns += [">code", ">constants", ">RAM", ">stack"]
        return columns, [self._cells(row) for row in self.rows]

    def _cells(self, row: Row) -> list[str]:
        cells = [row.core, row.model, row.dtype, _millions(row.sides.get(OURS))]
        for peer in self.peers:
            ratio = row.ratio(peer)
            cells += [_millions(row.sides.get(peer)), "" if ratio is None else f"{ratio:.2f}"]
        for name in ("code", "constants", "ram", "stack"):
            found = [row.sides.get(side) for side in (OURS, *self.peers)]
            cells.append(" / ".join("-" if side is None else f"{getattr(side, name):,}" for side in found))
        return cells

    def summary(self) -> list[str]:
        lines = []
        for core in dict.fromkeys(row.core for row in self.rows):
            for peer in self.peers:
                rows = [row for row in self.rows if row.core == core]
                ratios = [ratio for row in rows if (ratio := row.ratio(peer)) is not None]
                if ratios:
                    ahead = sum(ratio >= 1 for ratio in ratios)
                    lines.append(
                        f"{core}, instructions of {peer} / ours: geometric mean {mean(ratios):.2f}, ours are no more "
                        f"in {ahead} of {len(ratios)} lines, least {min(ratios):.2f}"
                    )
        return lines

    def notes(self) -> list[str]:
        order = " / ".join((OURS, *self.peers))
        lines = [
            f"bytes are those of {order}, without the C library: code, constants with the weights, variables, stack",
            "instructions are no times: cores differ in what an instruction takes",
            *self.compilers,
        ]
        reasons: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            for side, reason in row.without.items():
                reasons.setdefault((side, reason), []).append(row)
        for (side, reason), rows in reasons.items():
            models = ", ".join(dict.fromkeys(f"{row.model} {row.dtype}" for row in rows))
            lines.append(f"without {side}: {reason} ({models} on {', '.join(dict.fromkeys(row.core for row in rows))})")
        return lines

    def picture(self, path: Path) -> None:
        """Draw the ratio to each peer of each row as a bar."""
        found = {
            f"{row.core}, {row.model} {row.dtype}, {peer}": ratio
            for row in self.rows
            for peer in self.peers
            if (ratio := row.ratio(peer)) is not None
        }
        bars(found, f"instructions of a peer / instructions of {OURS}", path)


def _millions(side: Figures | None) -> str:
    if side is None:
        return ""
    return f"{side.instructions / 1e6:,.3f} M{'' if side.right else ' WRONG'}"
