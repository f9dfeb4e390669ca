"""`python -m bench.precision`: models in bfloat16 next to OpenVINO in bfloat16, and both next to float32.

    python -m bench.precision [--filter NAME] [--threads N] [--seconds S] [--output DIR]

A line is a model at one choice of sizes. It has median times; `error` is the largest difference to ONNX Runtime in
float32, divided by the largest result. All sides run in turn. Without OpenVINO its columns are empty.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from rich.table import Table

import deploykit
from bench.apart import apart
from bench.cases import CASES, Case, named
from bench.peers import PEERS
from bench.peers import openvino as peer
from bench.worker import inputs_of
from deploykit.checks.benchmark import in_turn
from deploykit.checks.reference import Runner
from deploykit.cli.console import messages, results, table, text_seconds

Precision: TypeAlias = Literal["float32", "bf16"]

OURS: tuple[Precision, ...] = ("float32", "bf16")
FILTER = ("resnet50", "mobilenet", "minilm", "vit", "unet", "gpt2")

Line = Mapping[str, Any]


def main() -> int:
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    for case in named(given.filter or FILTER):
        if case.name.endswith("int8"):
            continue
        messages.print(case.name)
        for index in range(len(case.sizes)):
            found = apart(partial(measured, case.name, index, given.threads, given.seconds, given.output))
            if isinstance(found, dict):
                lines.append(found)
            else:
                messages.print(f"  {dict(case.sizes[index])}: {found}")
    results.print(shown_lines(lines))
    return 0 if lines else 1


def measured(name: str, index: int, threads: int, seconds: float, output: Path) -> Line:
    """The times of all sides, and their errors."""
    case = CASES[name]
    model = output / f"{name}.onnx"
    if not model.exists():
        onnx.save(case.make(), model)
    sides: dict[str, Runner] = {"onnxruntime": PEERS["onnxruntime"].load(model, threads, case.dims)}
    for precision in OURS:
        folder = output / f"{name}-{precision}"
        if not folder.exists():
            deploykit.build(model, dims=dict(case.dims), output=folder, precision=precision, check=False)
        sides[precision] = deploykit.open(folder, threads=threads).run
    manifest = deploykit.open(output / f"{name}-bf16").manifest
    if PEERS["openvino"].missing() is None:
        sides |= {f"openvino {kind}": peer.load(model, threads, case.dims, kind) for kind in ("f32", "bf16")}
    inputs = inputs_of(case, manifest, case.sizes[index])
    expected = sides["onnxruntime"](inputs)
    errors = {side: _error(run(inputs), expected) for side, run in sides.items()}
    timings = in_turn({side: _call(run, inputs) for side, run in sides.items()}, seconds)
    times = {timing.name: timing.median for timing in timings}
    return {"label": _label(case, index), "times": times, "errors": errors}


def _call(run: Runner, inputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
    return lambda: run(inputs)


def _error(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """The largest difference in an output, divided by its largest number."""
    return max(float(np.abs(found[key] - value).max() / np.abs(value).max()) for key, value in expected.items())


def _label(case: Case, index: int) -> str:
    return " ".join([case.name, *(f"{dim}={size}" for dim, size in case.sizes[index].items())])


def shown_lines(lines: list[Line]) -> Table:
    """The table, with geometric means in the last line."""
    shown = table("model", "float32", "bf16", "error", "OpenVINO bf16", "error", "bf16/float32", "OpenVINO/ours")
    gains, ratios = [], []
    for line in lines:
        times, errors = line["times"], line["errors"]
        gains.append(times["float32"] / times["bf16"])
        cells = [line["label"], *(text_seconds(times[side]) for side in OURS), f"{errors['bf16']:.1e}"]
        theirs = times.get("openvino bf16")
        if theirs is None:
            shown.add_row(*cells, "", "", f"{gains[-1]:.2f}", "")
            continue
        ratios.append(theirs / times["bf16"])
        error = f"{errors['openvino bf16']:.1e}"
        shown.add_row(*cells, text_seconds(theirs), error, f"{gains[-1]:.2f}", f"{ratios[-1]:.2f}")
    means = [f"{geometric_mean(numbers):.2f}" if numbers else "" for numbers in (gains, ratios)]
    shown.add_row("geometric mean", "", "", "", "", "", *means)
    return shown


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.precision", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--filter", action="append", metavar="NAME", help=f"default: {', '.join(FILTER)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each line (default: 3)")
    parser.add_argument("--output", type=Path, default=Path("build/bench-precision"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
