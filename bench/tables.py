"""What the reports of all benchmarks share: the files that they are written to, and the table that is shown.

A report is written as `report.md`, `report.json` and `report.png`. All of them name the machine and the versions.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from math import exp, log, log2
from pathlib import Path
from typing import Any, Protocol

from deploykit.cli.console import results
from deploykit.cli.console import table as drawn

_PACKAGES = ("deploykit", "onnxruntime", "openvino", "torch", "iree-base-compiler")


class Report(Protocol):
    def facts(self) -> dict[str, Any]:
        """What was measured, as JSON."""
        ...

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The columns and the rows of text. Columns that are aligned to the right have `>` before their name."""
        ...

    def summary(self) -> list[str]:
        """Sentences that summarise all rows."""
        ...

    def notes(self) -> list[str]:
        """What else to know about the table."""
        ...

    def picture(self, path: Path) -> None:
        """Draw a PNG."""
        ...


def write(report: Report, folder: Path) -> None:
    """Write the files of the report into a folder."""
    (folder / "report.json").write_text(json.dumps(document(report), indent=1) + "\n")
    (folder / "report.md").write_text(markdown(report))
    report.picture(folder / "report.png")


def show(report: Report) -> None:
    """Print the table and the summary."""
    columns, rows = report.table()
    shown = drawn(*columns)
    for cells in rows:
        shown.add_row(*cells)
    results.print(shown)
    for line in report.summary():
        results.print(line)


def document(report: Report) -> dict[str, Any]:
    machine = {"processor": processor(), "system": platform.platform()}
    return {"machine": machine, "versions": versions(), "summary": report.summary(), **report.facts()}


def markdown(report: Report) -> str:
    columns, rows = report.table()
    lines = [f"{processor()}, {', '.join(f'{k} {v}' for k, v in versions().items())}", ""]
    lines.append(f"| {' | '.join(column.removeprefix('>') for column in columns)} |")
    lines.append(f"|{'|'.join('---:' if column.startswith('>') else '---' for column in columns)}|")
    lines += [f"| {' | '.join(cells)} |" for cells in rows]
    lines += ["", *(f"* {line}" for line in (*report.summary(), *report.notes()))]
    return "\n".join(lines) + "\n"


def bars(ratios: Mapping[str, float], meaning: str, path: Path) -> None:
    """Draw ratios as bars, on a logarithmic axis that begins at 1."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(9, 1.6 + 0.19 * len(ratios)), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    shown = list(reversed(list(ratios.items())))
    left = [log2(ratio) for _, ratio in shown]
    colours = ["#2a8f6d" if ratio >= 1 else "#d1633a" for _, ratio in shown]
    axes.barh(range(len(shown)), left, color=colours, height=0.75)
    axes.set_yticks(range(len(shown)), [label for label, _ in shown], fontsize=7)
    axes.axvline(0, color="#333333", linewidth=1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{2**value:.3g}"))
    axes.set_xlabel(meaning)
    axes.set_title(processor(), loc="left", fontsize=9)
    axes.margins(y=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
