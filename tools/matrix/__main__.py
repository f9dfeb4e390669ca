"""The cross-compile matrix: builds models for every target, kind of CPU and device, runs each where this machine can,
and compares the results with ONNX Runtime.

    python -m tools.matrix [--model NAME] [--column NAME] [--jobs N] [--output FILE]
    python -m tools.matrix --list

A cell is one of `MODELS` in one of `COLUMNS`. Its status is

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
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import onnx

import deploykit
from deploykit.checks.verify import mismatch
from deploykit.errors import DeploykitError, MismatchError, ToolchainError, UnsupportedModelError, UsageError
from tools.matrix.columns import COLUMNS, Column
from tools.matrix.models import MODELS, Model
from tools.matrix.page import Cell, write

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "docs" / "matrix.json"

SECONDS = 900
"""The most seconds of a cell."""


def main() -> int:
    given = _arguments()
    if given.list:
        print(json.dumps({"model": list(MODELS), "column": list(COLUMNS)}))
        return 0
    models, columns = given.model or list(MODELS), given.column or list(COLUMNS)
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
    parser.add_argument("--model", action="append", choices=list(MODELS), metavar="NAME", help="only this model")
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
    status, reason = _outcome(MODELS[model], COLUMNS[column])
    return Cell(model, column, status, reason, round(time.monotonic() - begin, 1))


def _outcome(model: Model, column: Column) -> tuple[str, str]:
    """The status of a cell, and the reason for it."""
    with tempfile.TemporaryDirectory(prefix="deploykit-") as name:
        file, folder = Path(name) / "model.onnx", Path(name) / "dist"
        onnx.save(model.make(), file)
        try:
            deploykit.build(file, column.target(), model.dims(), folder, cpu=column.cpu, devices=column.devices)
        except (UsageError, UnsupportedModelError) as error:
            return "refused", str(error)
        except DeploykitError as error:
            return "failed", str(error)
        missing = column.missing()
        if missing is not None:
            return "built", missing
        options = {"tolerance": model.tolerance, "threads": column.threads, "device": column.device}
        try:
            for sizes, inputs in model.runs():
                report = deploykit.verify(folder, file, at=sizes, inputs=inputs, **options)
                if not report.within:
                    return "wrong", mismatch(report)
        except ToolchainError as error:
            return "built", str(error)
        except MismatchError as error:
            return "wrong", str(error)
        except DeploykitError as error:
            return "failed", str(error)
    return "green", ""


if __name__ == "__main__":
    sys.exit(main())
