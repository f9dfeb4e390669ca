"""Times models on a GPU with all forms of kernels that its device takes, and without those for each feature.

    python -m bench.forms [--device vulkan|opencl] [--seconds S] [--output DIR] MODEL...

MODEL is a case of `bench.cases`, or `product`: 256 rows of 8-bit integers times a matrix of 1024 x 1024. All sides run
in turn in one process, on the device that the driver gives first, after their results were compared with each other. A
feature for which a model has no forms shows how much times vary. DIR (default `build/bench-forms`) receives artifacts.

Exit code 1 if results differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

import deploykit
from bench.cases import CASES, Case
from bench.models.graph import Graph
from bench.worker import inputs_of
from deploykit.artifact.manifest import read_manifest
from deploykit.checks.benchmark import in_turn
from deploykit.checks.comparison import compare
from deploykit.checks.sources import RandomSource
from deploykit.cli.console import messages, results, table, text_seconds
from deploykit.engines.native.gpu import FEATURES, GpuOptions
from deploykit.engines.native.on_gpu import OnGpu, open_gpu

ROWS, SIDE = 256, 1024


def product() -> onnx.ModelProto:
    """x[rows, SIDE] (uint8) -> y[rows, SIDE], with a constant matrix of 8-bit integers."""
    graph = Graph("product")
    weight = graph.constant(graph.random.integers(-128, 128, (SIDE, SIDE)).astype(np.int8))
    x = graph.input("x", ("rows", SIDE), TensorProto.UINT8)
    graph.output(graph.node("MatMulInteger", x, weight, output="y"), ("rows", SIDE), TensorProto.INT32)
    return graph.model()


PRODUCT = Case("product", product, {"rows": (1, ROWS)}, ({"rows": ROWS},), {"x": RandomSource(0, 0, 255)})


def main() -> int:
    given = _arguments()
    cases = {**CASES, PRODUCT.name: PRODUCT}
    shown = table("model", "sizes", "forms", "median", "fastest")
    same = True
    for name in given.models:
        messages.print(f"{name}: build and time")
        same &= measure(cases[name], given.device, given.seconds, given.output / name, shown.add_row)
    results.print(shown)
    return 0 if same else 1


def measure(case: Case, device: str, seconds: float, folder: Path, add: Callable[..., None]) -> bool:
    """Add a row for each side; returns whether all had the same results."""
    sizes = case.sizes[0]
    deploykit.build(case.make(), dims=case.dims, output=folder, devices=[device])
    with ExitStack() as stack:
        full = _opened(stack, folder, device, 0)
        sides = {"all": full} | {
            f"without {name}": _opened(stack, folder, device, bit)
            for bit, name in FEATURES.items()
            if full.features & bit
        }
        with deploykit.open(folder) as session:
            inputs = list(inputs_of(case, session.manifest, sizes).values())
        found = {side: opened.engine.run(inputs) for side, opened in sides.items()}
        same = all(_alike(case, outputs, found["all"]) for outputs in found.values())
        calls = {side: partial(opened.engine.run, inputs) for side, opened in sides.items()}
        for time in in_turn(calls, seconds):
            cells = (text_seconds(time.median), text_seconds(time.fastest))
            add(case.name, ", ".join(f"{dim}={size}" for dim, size in sizes.items()), time.name, *cells)
    if not same:
        messages.print(f"{case.name}: the results of its forms differ")
    return same


@dataclass(frozen=True)
class Opened:
    """A model on a device, and the features whose forms it takes."""

    engine: OnGpu
    features: int


def _opened(stack: ExitStack, folder: Path, device: str, without: int) -> Opened:
    manifest = read_manifest(folder)
    library = folder / f"lib{manifest.prefix}.so"
    gpu = open_gpu(library, folder, manifest, device, GpuOptions(without=without))
    stack.callback(gpu.close)
    return Opened(OnGpu(library, folder, manifest, 1, gpu), gpu.features)


def _alike(case: Case, outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    pairs = zip(outputs, expected, strict=True)
    return all(compare("", found, wanted, case.tolerance).within for found, wanted in pairs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.forms", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+", choices=(*CASES, PRODUCT.name), metavar="MODEL")
    parser.add_argument("--device", choices=("vulkan", "opencl"), default="vulkan")
    parser.add_argument("--seconds", type=float, default=20, help="for each model (default: 20)")
    parser.add_argument("--output", type=Path, default=Path("build/bench-forms"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
