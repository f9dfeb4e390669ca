"""What became of the cells, as JSON and as a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.matrix.columns import COLUMNS
from tools.matrix.models import MODELS

MARKS = {"green": "✓", "built": "built", "refused": "refused", "wrong": "**wrong**", "failed": "**failed**"}


@dataclass(frozen=True)
class Cell:
    """What became of one model in one column, in so many seconds; `reason` is empty if it is green."""

    model: str
    column: str
    status: str
    reason: str
    seconds: float


def write(output: Path, cells: Sequence[Cell]) -> None:
    """Write all cells to the file and the page; those that are not in `cells` stay as they are there."""
    known = read(output) if output.exists() else []
    every = {(cell.model, cell.column): cell for cell in (*known, *cells)}
    listed = [every[place] for model in MODELS for column in COLUMNS if (place := (model, column)) in every]
    lines = ",\n".join(json.dumps(asdict(cell)) for cell in listed)
    output.write_text(f"[\n{lines}\n]\n")
    output.with_suffix(".md").write_text(page(listed))


def read(path: Path) -> list[Cell]:
    """The cells in a file."""
    return [Cell(**cell) for cell in json.loads(path.read_text())]


def page(cells: Sequence[Cell]) -> str:
    """The table, and the reasons of cells that are not green."""
    every = {(cell.model, cell.column): cell for cell in cells}
    columns = [column for column in COLUMNS if any(cell.column == column for cell in cells)]
    models = [model for model in MODELS if any(cell.model == model for cell in cells)]
    counts = Counter(cell.status for cell in cells)
    lines = [
        "# The cross-compile matrix",
        "",
        "`python -m tools.matrix` builds each model for every target, kind of CPU and device, runs it where the",
        "machine can, and compares the results with ONNX Runtime at two choices of sizes. CPUs other than that of the",
        "machine are emulated; GPUs are drivers in software: llvmpipe, SwiftShader and PoCL. *Java* runs the classes",
        "of the AAR on a JVM. Names that end with `legacy` or `dynamo` are models of transformers with small",
        "configurations, as PyTorch's exporters write them.",
        "",
        f"{len(cells)} cells: {', '.join(f'{count} {status}' for status, count in counts.most_common())}.",
        "",
        f"| | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for model in models:
        found = (every.get((model, column)) for column in columns)
        lines.append(f"| {model} | {' | '.join(MARKS[cell.status] if cell else '' for cell in found)} |")
    reasons: dict[str, list[str]] = {}
    for cell in cells:
        if cell.reason:
            text = " ".join(cell.reason.split())[:300].replace("|", "\\|")
            reasons.setdefault(f"{cell.status}: {text}", []).append(f"{cell.model} ({cell.column})")
    if reasons:
        lines += ["", "| reason | cells |", "|---|---|"]
        lines += [f"| {reason} | {', '.join(places)} |" for reason, places in reasons.items()]
    return "\n".join(lines) + "\n"
