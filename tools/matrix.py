"""The cross-compile matrix: builds models for every target, kind of CPU and device, runs each where this machine can,
and compares the results with ONNX Runtime.

    python -m tools.matrix [--model NAME] [--column NAME] [--jobs N] [--output FILE]
    python -m tools.matrix --list

A cell is a model (`bench.cases`) in one of `COLUMNS`. Its status is

    green     built, run, and equal to ONNX Runtime at all sizes tried
    built     built, but nothing here runs it; the reason says what is missing
    refused   the target does not take the model; the reason is its message
    wrong     a result differs
    failed    any other error, or too much time

FILE (default `docs/matrix.json`) receives all cells, and the page beside it, `matrix.md`, a table; cells that are not
measured keep what they have there. `--list` prints the names of models and columns as JSON, for jobs that measure a
cell each. Exit code 1 if a cell is wrong or failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import onnx

import deploykit
from bench.cases import CASES, Case, Sizes
from deploykit.artifact.devices import CODE
from deploykit.checks.sources import RandomSource
from deploykit.checks.verify import mismatch
from deploykit.engines.native.adapters import adapters
from deploykit.errors import DeploykitError, MismatchError, ToolchainError, UnsupportedModelError, UsageError
from deploykit.targets.android import LIBRARIES, AndroidTarget
from deploykit.targets.android.abis import ABIS
from deploykit.targets.base import Target, find_target

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "docs" / "matrix.json"

SECONDS = 900
"""The most seconds of a cell."""

TRIED = 2
"""How many sizes of a model are tried: those with the fewest elements."""

SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
"""A second Vulkan driver in software, which comes with Debian's Chromium."""


@dataclass(frozen=True)
class Column:
    """A target with what it is built for, and how its artifacts run. `target`, `cpu` and `devices` are those of
    `deploykit.build`, `device` and `threads` those of `deploykit.open`. `environment` is set before anything is loaded.
    `missing` says what this machine lacks to run the artifacts, or None."""

    target: Callable[[], Target]
    cpu: str = "native"
    devices: tuple[str, ...] = ()
    device: str | None = None
    threads: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[], str | None] = lambda: None


def _host() -> Target:
    return find_target("host")


def _android(abi: str) -> Callable[[], Target]:
    return lambda: AndroidTarget([abi], LIBRARIES)


def _without(program: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(program) else f"no {program}"


def _without_device(driver: str) -> Callable[[], str | None]:
    return lambda: None if any(each.unusable is None for each in adapters(driver)) else f"no device with {driver}"


COLUMNS: Mapping[str, Column] = {
    **{f"host {cpu}": Column(_host, cpu) for cpu in ("x86-64-v2", "x86-64-v3", "portable")},
    "host 2 threads": Column(_host, threads=2),
    **{
        f"host {cpu}": Column(_host, cpu, missing=_without("qemu-aarch64"))
        for cpu in ("armv8-a", "armv8.2-a+dotprod", "armv8.2-a+dotprod+fullfp16")
    },
    **{
        f"host {driver}": Column(_host, devices=(driver,), device=driver, missing=_without_device(driver))
        for driver in CODE
    },
    "host vulkan SwiftShader": Column(
        _host,
        devices=("vulkan",),
        device="vulkan",
        environment={"VK_DRIVER_FILES": str(SWIFTSHADER)},
        missing=lambda: None if SWIFTSHADER.exists() else "no SwiftShader",
    ),
    **{f"android {abi}": Column(_android(abi)) for abi in ABIS},
    "embedded": Column(lambda: find_target("embedded")),
    "webgpu wasm": Column(lambda: find_target("webgpu"), device="wasm", missing=_without("node")),
    "webgpu wasm 2 threads": Column(lambda: find_target("webgpu"), device="wasm", threads=2, missing=_without("node")),
    "webgpu webgpu": Column(lambda: find_target("webgpu"), device="webgpu", missing=_without("chromium")),
}


@dataclass(frozen=True)
class Cell:
    """What became of one model in one column, in so many seconds; `reason` is empty if it is green."""

    model: str
    column: str
    status: str
    reason: str
    seconds: float


def main() -> int:
    given = _arguments()
    if given.list:
        print(json.dumps({"model": list(CASES), "column": list(COLUMNS)}))
        return 0
    models, columns = given.model or list(CASES), given.column or list(COLUMNS)
    if given.here:
        print(f"cell {json.dumps(asdict(_measured(models[0], columns[0])))}")
        return 0
    wanted = [(model, column) for model in models for column in columns]
    with ThreadPoolExecutor(given.jobs) as pool:
        cells = []
        for cell in pool.map(lambda place: _shown(measure(*place)), wanted):
            cells.append(cell)
            write(given.output, cells)  # what was measured stays if this is interrupted
    counts = Counter(cell.status for cell in cells)
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["wrong"] + counts["failed"] else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.matrix", description="Measure the cross-compile matrix.")
    parser.add_argument("--model", action="append", choices=list(CASES), metavar="NAME", help="only this model")
    parser.add_argument("--column", action="append", choices=list(COLUMNS), metavar="NAME", help="only this column")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where all cells are kept")
    parser.add_argument("--list", action="store_true", help="print the models and columns as JSON")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _shown(cell: Cell) -> Cell:
    print(f"{cell.status:8}{cell.seconds:6.1f} s  {cell.model}, {cell.column}  {cell.reason[:200]}", flush=True)
    return cell


def measure(model: str, column: str) -> Cell:
    """Measure a cell in a process of its own."""
    call = [sys.executable, "-m", "tools.matrix", "--here", "--model", model, "--column", column]
    environment = os.environ | dict(COLUMNS[column].environment)
    begin = time.monotonic()
    try:
        done = subprocess.run(
            call, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return Cell(model, column, "failed", f"more than {SECONDS} s", time.monotonic() - begin)
    for line in done.stdout.splitlines():
        if line.startswith("cell "):
            return Cell(**json.loads(line.removeprefix("cell ")))
    last = next(iter(done.stderr.strip().splitlines()[-1:]), "no message")
    return Cell(model, column, "failed", f"exit code {done.returncode}: {last}", time.monotonic() - begin)


def _measured(model: str, column: str) -> Cell:
    begin = time.monotonic()
    status, reason = _outcome(CASES[model], COLUMNS[column])
    return Cell(model, column, status, reason, round(time.monotonic() - begin, 1))


def _outcome(case: Case, column: Column) -> tuple[str, str]:
    """The status of a cell, and the reason for it."""
    inputs = {name: _text(source) for name, source in case.sources.items()}
    with tempfile.TemporaryDirectory(prefix="deploykit-") as name:
        file, folder = Path(name) / f"{case.name}.onnx", Path(name) / "dist"
        onnx.save(case.make(), file)
        try:
            deploykit.build(file, column.target(), case.dims, folder, cpu=column.cpu, devices=column.devices)
        except (UsageError, UnsupportedModelError) as error:
            return "refused", str(error)
        except DeploykitError as error:
            return "failed", str(error)
        missing = column.missing()
        if missing is not None:
            return "built", missing
        try:
            for sizes in _sizes(case):
                report = deploykit.verify(
                    folder,
                    file,
                    at=sizes,
                    inputs=inputs,
                    tolerance=case.tolerance,
                    threads=column.threads,
                    device=column.device,
                )
                if not report.within:
                    return "wrong", mismatch(report)
        except ToolchainError as error:
            return "built", str(error)
        except MismatchError as error:
            return "wrong", str(error)
        except DeploykitError as error:
            return "failed", str(error)
    return "green", ""


def _sizes(case: Case) -> Iterable[Sizes]:
    """The sizes to try: those with the fewest elements."""
    return sorted(case.sizes, key=lambda sizes: math.prod(size + 1 for size in sizes.values()))[:TRIED]


def _text(source: RandomSource) -> str:
    return f"random:{source.seed}:{source.low}..{source.high}"


def write(output: Path, cells: Sequence[Cell]) -> None:
    """Write all cells to the file and the page; those that are not in `cells` stay as they are there."""
    known = [Cell(**cell) for cell in json.loads(output.read_text())] if output.exists() else []
    every = {(cell.model, cell.column): cell for cell in (*known, *cells)}
    listed = [every[place] for model in CASES for column in COLUMNS if (place := (model, column)) in every]
    output.write_text(json.dumps([asdict(cell) for cell in listed], indent=1) + "\n")
    output.with_suffix(".md").write_text(page(listed))


MARKS = {"green": "✓", "built": "built", "refused": "refused", "wrong": "**wrong**", "failed": "**failed**"}


def page(cells: Sequence[Cell]) -> str:
    """The table, and the reasons of cells that are not green."""
    every = {(cell.model, cell.column): cell for cell in cells}
    columns = [column for column in COLUMNS if any(cell.column == column for cell in cells)]
    models = [model for model in CASES if any(cell.model == model for cell in cells)]
    counts = Counter(cell.status for cell in cells)
    lines = [
        "# The cross-compile matrix",
        "",
        "`python -m tools.matrix` builds each model for every target, kind of CPU and device, runs it where the",
        "machine can, and compares the results with ONNX Runtime at two choices of sizes. CPUs other than that of the",
        "machine are emulated; GPUs are drivers in software: llvmpipe, SwiftShader and PoCL.",
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


if __name__ == "__main__":
    sys.exit(main())
