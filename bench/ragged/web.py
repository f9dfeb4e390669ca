"""Times the web package of an encoder on batches of sequences of different lengths, next to onnxruntime-web.

    python -m bench.ragged.web [--quick] [--model NAME] [--layers N] [--data NAME] [--batch N] [--device D]
                               [--threads N] [--seconds S] [--output DIR]

A line is a batch with the lengths of a data set, in a page of headless Chromium: on WebAssembly with one thread each,
then with two, then on WebGPU (in software on a machine without a GPU). `ragged` is our package, on the sequences one
after the other. `padded` is onnxruntime-web with each sequence padded to the longest; `sorted` has the sequences sorted
and cut into small batches, of the size in brackets, which is the fastest of `SIZES`. Arrays are padded and sorted
beforehand. Times are medians, of all sides in turn. `over X` is the time of X divided by that of the ragged package:
above 1 that is faster. `best` is the faster of padded and sorted.

Needs chromium, and npm for onnxruntime-web. DIR (default `build/bench-ragged-web`) receives `report.md`, `report.json`
and `report.png`. Exit code 1 if results differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import bench
import deploykit
from bench.browser import ISOLATED, in_chromium
from bench.peers.npm import install
from bench.ragged.batches import Arrays, Batch, batch_of
from bench.ragged.lengths import DATASETS, padding
from bench.ragged.models import MODELS, Model
from bench.ragged.sides import SIZES
from bench.ragged.web_report import SORTED, Report, Row
from bench.tables import show, write
from bench.web import DEVICES, PEER, THREADS, places
from deploykit.cli.console import messages

BATCHES = {"wasm": (8, 32), "webgpu": (8,)}
"""The default batches. In software, larger ones take many minutes on WebGPU."""

PAGE_SECONDS = 900
"""How long a page may take for one batch."""


@dataclass(frozen=True)
class Plan:
    """What to measure and where the files go. `batches` are by device, `places` are devices, each with a number of
    threads."""

    folder: Path
    model: Model
    layers: int
    datasets: tuple[str, ...]
    batches: Mapping[str, tuple[int, ...]]
    places: tuple[tuple[str, int], ...]
    seconds: float


def main() -> int:
    plan = _plan(_arguments())
    plan.folder.mkdir(parents=True, exist_ok=True)
    install(PEER, plan.folder)
    _build(plan)
    report = Report(plan.model.name, plan.layers)
    for device, threads in plan.places:
        for dataset in plan.datasets:
            for count in plan.batches[device]:
                row = _measure(plan, dataset, count, device, threads)
                if isinstance(row, Row):
                    report = replace(report, rows=(*report.rows, row))
                    write(report, plan.folder)
                else:
                    report = replace(report, failed=(*report.failed, row))
    show(report)
    return 1 if report.wrong else 0


def _build(plan: Plan) -> None:
    messages.print(f"{plan.model.name}: build")
    path = plan.folder / f"{plan.model.name}.onnx"
    onnx.save(plan.model.make(plan.layers), path)
    dims = {
        "batch": (1, max(max(batches) for batches in plan.batches.values())),
        "seq": (1, max(DATASETS[name].longest for name in plan.datasets)),
    }
    deploykit.build(path, "webgpu", dims, plan.folder / plan.model.name, ragged={"seq": "batch"})
    shutil.copyfile(Path(__file__).with_name("web.html"), plan.folder / "ragged.html")
    shutil.copyfile(Path(bench.__file__).with_name("turns.mjs"), plan.folder / "turns.mjs")


def _measure(plan: Plan, dataset: str, count: int, device: str, threads: int) -> Row | str:
    """The row of a batch, or why there is none."""
    batch = batch_of(plan.model, DATASETS[dataset].typical(count))
    place = device if device == "webgpu" else f"{device}, {threads} thr."
    job = {**_job(plan, batch), "device": device, "threads": threads}
    (plan.folder / "job.json").write_text(json.dumps(job))
    options: dict[str, Any] = {"headers": ISOLATED, "gpu": device == "webgpu"}
    found = in_chromium(plan.folder, "ragged.html", seconds=PAGE_SECONDS, **options)
    if "failed" in found:
        messages.print(f"  {dataset} batch={count}, {place}: {found['failed']}")
        return f"{dataset} batch={count}, {place}: {found['failed']}"
    tokens, longest = int(batch.lengths.sum()), int(batch.lengths.max())
    facts = (dataset, count, place, tokens, longest, padding(batch.lengths))
    row = Row(*facts, found["times"], found["sizes"].get(SORTED), found["error"])
    messages.print(f"  {row.label}: {', '.join(f'{side} {time:.1f} ms' for side, time in row.times.items())}")
    return row


def _job(plan: Plan, batch: Batch) -> dict[str, Any]:
    return {
        "folder": plan.model.name,
        "model": f"{plan.model.name}.onnx",
        "output": plan.model.output,
        "seconds": plan.seconds,
        "packed": _arrays(batch.packed()),
        "padded": _arrays(batch.padded()),
        "sorted": {size: [_arrays(a) for a in batch.sorted(size)] for size in SIZES if size < len(batch.lengths)},
    }


def _arrays(arrays: Arrays) -> Mapping[str, Any]:
    """Integers, as JSON."""
    return {
        name: {"shape": array.shape, "values": array.astype(np.int64).reshape(-1).tolist()}
        for name, array in arrays.items()
    }


def _plan(given: argparse.Namespace) -> Plan:
    """The plan of the arguments. `--quick` changes the defaults."""
    quick = given.quick
    batches = tuple(given.batch or ((2,) if quick else ()))
    devices = given.device or (DEVICES[:1] if quick else DEVICES)
    return Plan(
        given.output.resolve(),
        MODELS[given.model],
        given.layers,
        tuple(given.data or (("CoLA",) if quick else ("MNLI", "CoLA"))),
        {device: batches or BATCHES[device] for device in DEVICES},
        tuple(places(devices, given.threads or (THREADS[:1] if quick else THREADS))),
        given.seconds or (0.2 if quick else 3.0),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ragged.web", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [name for name, model in MODELS.items() if "input_ids" in model.inputs]
    add: Any = parser.add_argument
    add("--quick", action="store_true", help="a small batch on WebAssembly, to see that it works")
    add("--model", choices=names, default="minilm", help="default: minilm")
    add("--layers", type=int, default=1, metavar="N", help="default: 1")
    add("--data", action="append", choices=tuple(DATASETS), help="default: MNLI and CoLA")
    add("--batch", type=int, action="append", metavar="N", help="default: 8 and 32, on WebGPU 8")
    add("--device", action="append", choices=DEVICES, help="default: both")
    add("--threads", type=int, action="append", metavar="N", help="of each side on WebAssembly (default: 1 and 2)")
    add("--seconds", type=float, help="for each line of the table (default: 3)")
    add("--output", type=Path, default=Path("build/bench-ragged-web"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
