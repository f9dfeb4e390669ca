"""Times packages of dynamic models in a page of headless Chromium, on WebAssembly and on WebGPU in turn.

    python -m bench.dynamic.gpu [--model NAME] [--hidden N] [--batch N] [--turns N]

A line is a model of `bench.dynamic.sources`. `launches` are those of cells, the same on both devices, and `submissions`
the commands that a run gives the GPU at once: one for each time that the control flow waits for tensors, and one with
the results. Times are medians with one thread, from objects to results; on a machine without a GPU, WebGPU is computed
in software. Exit code 1 if results differ from those of the source in Python by more than 1e-4 of the largest, or if
launches differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.browser import ISOLATED, in_chromium
from bench.dynamic.cases import CASES, Case, plain, prepare
from bench.dynamic.sides import build
from deploykit.cli.console import results as printed
from deploykit.cli.console import table, text_seconds

COLUMNS = ("model", ">hidden", ">launches", ">submissions", ">WebAssembly", ">WebGPU")
TOLERANCE = 1e-4
PAGE = Path(__file__).with_suffix(".html")


def main() -> int:
    given = _arguments()
    rows, same = [], True
    with tempfile.TemporaryDirectory(prefix="deploykit-") as scratch:
        for case in given.model:
            for hidden in given.hidden:
                found, difference = measured(case, hidden, given.batch, given.turns, Path(scratch))
                one, other = found["wasm"], found["webgpu"]
                same &= difference <= TOLERANCE and one["launches"] == other["launches"]
                times = (text_seconds(median(each["times"]) / 1e3) for each in (one, other))
                rows.append([case.name, str(hidden), str(other["launches"]), f"{found['submissions']:g}", *times])
    shown = table(*COLUMNS)
    for row in rows:
        shown.add_row(*row)
    printed.print(shown)
    return 0 if same else 1


def measured(case: Case, hidden: int, batch: int, turns: int, scratch: Path) -> tuple[dict[str, Any], float]:
    """What the page reports, and the greatest difference of results, as a part of the largest."""
    prepared = prepare(case, hidden, scratch)
    folder = build(prepared, scratch, target="webgpu")
    instances = prepared.instances(prepared.structures(batch))
    (folder / "instances.json").write_text(json.dumps([plain(each) for each in instances]))
    shutil.copyfile(PAGE, folder / PAGE.name)
    found = in_chromium(folder, f"{PAGE.name}?turns={turns}&threads=1", headers=ISOLATED, gpu=True, seconds=600)
    expected = prepared.expected(instances)
    differences = [np.abs(np.asarray(found[name]["results"]) - expected).max() for name in ("wasm", "webgpu")]
    return found, float(max(differences) / np.abs(expected).max())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.dynamic.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", action="append", choices=CASES, help="by default all")
    parser.add_argument("--hidden", action="append", type=int, help="by default 64")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    given.model = [CASES[name] for name in given.model or CASES]
    given.hidden = given.hidden or [64]
    return given


if __name__ == "__main__":
    sys.exit(main())
