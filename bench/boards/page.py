"""Prints the tables of docs/performance.md: `python -m bench.boards.page [build/bench-boards/report.json]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.boards.report import OURS
from bench.tables import mean

_DTYPES = {"int8": (OURS, "CMSIS-NN"), "int16": (OURS, "CMSIS-NN"), "float": (OURS, "onnx2c", "emx-onnx-cgen")}
"""The sides that are compared in each dtype."""
_BYTES = {"ram": "RAM", "code": "code", "stack": "stack"}
_CORE = "cortex-m4"
"""The core whose bytes are listed, if it is in the report."""


def pages(report: Path) -> Iterator[str]:
    """The lines of all tables."""
    rows = json.loads(report.read_text())["rows"]
    for dtype, sides in _DTYPES.items():
        found = {(row["core"], row["model"]): row for row in rows if row["dtype"] == dtype}
        models = [
            model
            for model in dict.fromkeys(model for _, model in found)
            if any(set(sides[1:]) & set(row["sides"]) for (_, other), row in found.items() if other == model)
        ]
        cores = list(dict.fromkeys(core for core, _ in found))
        if not models:
            continue
        yield from _table(["core", *models, "ratio"])
        for core in cores:
            of_core = [found[core, model] for model in models]
            ratios = [
                [ratio for row in of_core if (ratio := row["ratios"].get(side)) is not None] for side in sides[1:]
            ]
            last = " / ".join(f"{mean(each):.2f}" if each else "-" for each in ratios)
            yield _line([core, *(_cell(row, sides, "instructions") for row in of_core), last])
        yield ""
        core = _CORE if _CORE in cores else cores[0]
        yield from _table([f"bytes, {core}", *models])
        for kind, title in _BYTES.items():
            yield _line([title, *(_cell(found[core, model], sides, kind) for model in models)])
        yield ""


def _table(columns: Sequence[str]) -> list[str]:
    return [_line(columns), f"|---|{'---:|' * (len(columns) - 1)}"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(row: dict[str, Any], sides: Sequence[str], kind: str) -> str:
    """The figures of the sides; instructions in millions."""
    numbers = [row["sides"][side][kind] if side in row["sides"] else None for side in sides]
    form = "{:.2f}" if kind == "instructions" else "{:,}"
    scaled = [number if number is None or kind != "instructions" else number / 1e6 for number in numbers]
    return " / ".join("-" if number is None else form.format(number) for number in scaled)


if __name__ == "__main__":
    print("\n".join(pages(Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench-boards/report.json"))))
