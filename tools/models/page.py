"""docs/models.json, the results of the survey, and docs/models.md, the page that shows them. Neither needs PyTorch."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "models"
OUTPUT = ROOT / "docs" / "models.json"

GROUPS = ("text", "decoder", "encoder-decoder", "vision", "audio", "multimodal", "time series")
"""The sections of the page, in order."""

NAMES = 3
"""How many outputs a row names."""

LONGEST = 300
"""The most characters of a reason."""

INTRODUCTION = """\
# Architectures of transformers

`python -m tools.models` built a folder for each of these classes of transformers, in a tiny configuration with weights
from a seed, and compared the library for this machine with transformers in eager mode, at up to four sizes of every
dim, among them 1 and odd ones; the pictures of most rows had sides that are multiples of 32.
[huggingface.md](huggingface.md) says what the two routes are.

- route: `own` is a family of deploykit; the others were exported by PyTorch, with the exporter that is named.
- texts: *ragged* where batches of mixed lengths are proved to need no padding, else *padded*.
- inputs: names in brackets are dims that a run chooses.
- error: the largest difference of all outputs, divided by the largest value of the output if that is above 1. Up to
  1e-4 is right.
"""


@dataclass(frozen=True)
class Row:
    """What became of a case. `error` is the largest difference from eager mode; `status` is one of

    right     every output agrees at all sizes that the model takes
    wrong     an output differs
    refused   no route takes the folder; the reason is the message
    failed    any other error, or too much time or memory"""

    case: str
    group: str
    name: str
    type: str
    status: str
    route: str = ""
    exporter: str = ""
    texts: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    sizes: int = 0
    error: float | None = None
    reason: str = ""


def collect(folder: Path = FOLDER, output: Path = OUTPUT) -> str:
    """Add the results in `folder` to those in `output`, and write the page beside it. Returns a summary."""
    known = {row.case: row for row in (read(output) if output.exists() else ())}
    for path in sorted(folder.glob("*.json")):
        row = Row(**json.loads(path.read_text()))
        known[row.case] = row
    rows = sorted(known.values(), key=lambda row: (GROUPS.index(row.group), row.name.lower(), row.case))
    lines = ",\n".join(json.dumps(_short(row)) for row in rows)
    output.write_text(f"[\n{lines}\n]\n")
    output.with_suffix(".md").write_text(page(read(output)))
    return summary(rows)


def _short(row: Row) -> dict[str, object]:
    reason = re.sub(r"/\S*/(model|export)\b", r"\1", row.reason)  # temporary folders
    entries = asdict(row) | {"reason": " ".join(reason.split())[:LONGEST]}
    return {key: value for key, value in entries.items() if value not in ("", {}, [], (), None, 0)}


def read(path: Path) -> list[Row]:
    return [Row(**row) for row in json.loads(path.read_text())]


def summary(rows: Sequence[Row]) -> str:
    right = [row for row in rows if row.status == "right"]
    routes = Counter({row.name: row.route for row in right}.values())
    counts = Counter(row.status for row in rows)
    rest = ", ".join(f"{counts[status]} {status}" for status in ("refused", "failed", "wrong") if counts[status])
    worst = max((row.error or 0 for row in right), default=0)
    return (
        f"{len({row.name for row in right})} architectures are right: {routes['own']} by a family, {routes['torch']} "
        f"exported by PyTorch. The largest error is {worst:.1e}. Others: {rest or 'none'}."
    )


def page(rows: Sequence[Row]) -> str:
    parts = [INTRODUCTION, summary(rows), ""]
    for group in GROUPS:
        right = [row for row in rows if row.group == group and row.status == "right"]
        if right:
            parts += [f"## {group.capitalize()}", "", "| architecture | route | texts | inputs | outputs | error |"]
            parts += ["|---|---|---|---|---|---:|", *map(_line, right), ""]
    others = [row for row in rows if row.status != "right"]
    if others:
        parts += ["## Not built", "", "| architecture | | reason |", "|---|---|---|"]
        parts += [f"| {row.name} ({row.type}) | {row.status} | {_cell(row.reason)} |" for row in others]
        parts.append("")
    return "\n".join(parts)


def _line(row: Row) -> str:
    inputs = ", ".join(f"{name} {shape}" for name, shape in row.inputs.items())
    more = len(row.outputs) - NAMES
    outputs = ", ".join(row.outputs[:NAMES]) + (f" and {more} more" if more > 0 else "")
    cells = (row.name, row.exporter or row.route, row.texts, inputs, outputs, f"{row.error or 0:.0e}")
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
