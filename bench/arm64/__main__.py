"""`make bench-arm64`: counts the instructions of models on 64-bit Arm next to ONNX Runtime for arm64, under QEMU.

    python -m bench.arm64 [--level NAME] [--filter NAME] [--functions] [--output DIR]

Each model runs once at a batch of 1, with one thread, after its results were compared with those of ONNX Runtime on the
same CPU. Instructions are those of the run alone, without loading and without runs before it. `ratio` is ONNX
Runtime's number divided by ours: above 1 we execute fewer. The columns of kinds have the share of multiply-adds of
float vectors, dot products, and products of 8-bit matrices in each side's instructions, which says with which ones it
computes. `--functions` lists our functions with the most instructions. Instructions are no times: how fast they
are differs from CPU to CPU. DIR (default `build/bench-arm64`) receives models, artifacts, ONNX Runtime's library from
npm, and `report.json`.

Exit code 1 if our results differ from those of ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import deploykit
from bench.arm64.levels import LEVELS, Level
from bench.arm64.onnxruntime import OnnxRuntime
from bench.cases import CASES, Case, named
from bench.gpu import fixed
from bench.instructions.counters import RESULT, Counts, counted, counting, without_emulator
from bench.worker import inputs_of
from deploykit.artifact.manifest import read_manifest
from deploykit.checks.comparison import compare
from deploykit.cli.console import messages, results, table
from deploykit.engines.native.emulated import emulated
from deploykit.engines.native.process import Process, started
from deploykit.errors import DeploykitError
from deploykit.targets.base import find_target

USUAL = ("resnet50", "mobilenet", "mobilenet_int8", "minilm", "dscnn")
"""The models without `--filter`."""

SIZES = {"batch": 1, "seq": 128, "height": 128, "width": 128, "past": 0}


@dataclass
class Row:
    """A model at a level: instructions by kind on both sides, and whether our results are right."""

    model: str
    level: str
    ours: Mapping[str, int]
    peer: Mapping[str, int] = field(default_factory=dict)
    within: bool = True
    without: str = ""

    def ratio(self) -> float | None:
        """How many more instructions the peer executes, if both sides have the same results."""
        return self.peer["all"] / self.ours["all"] if self.peer and self.within else None


def main() -> int:
    given = _arguments()
    missing = without_emulator()
    if missing is not None:
        messages.print(f"nothing is counted: {missing}")
        return 4
    given.output.mkdir(parents=True, exist_ok=True)
    peer = OnnxRuntime(given.output / "onnxruntime")
    cases = named(given.filter) if given.filter else [CASES[name] for name in USUAL]
    rows = []
    for case in cases:
        for level in [LEVELS[name] for name in given.level or LEVELS]:
            messages.print(f"{case.name}, {level.name}: build and count")
            row, functions = measure(case, level, peer, given.output)
            rows.append(row)
            (given.output / "report.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
            if given.functions:
                show_functions(functions)
    return show(rows)


def measure(case: Case, level: Level, peer: OnnxRuntime, folder: Path) -> tuple[Row, Counts]:
    """Count both sides; also returns our counts by function."""
    sizes = {name: SIZES[name] for name in case.dims}
    path = folder / f"{case.name}.onnx"
    path.write_bytes(fixed(case.make(), sizes).SerializeToString(deterministic=True))
    artifact = folder / f"{case.name}-{level.name}"
    deploykit.build(case.make(), dims=case.dims, cpu=level.cpu, output=artifact)
    inputs = inputs_of(case, read_manifest(artifact), sizes)
    with TemporaryDirectory() as scratch:
        found, ours = run(artifact, inputs, level, Path(scratch))
        row = Row(case.name, level.name, ours.kinds)
        try:
            wanted, theirs = peer.count(path, inputs, level, Path(scratch))
        except DeploykitError as error:
            row.without = str(error)
            return row, ours
    row.peer = theirs.kinds
    row.within = all(compare(name, found[name], wanted[name], case.tolerance).within for name in wanted)
    return row, ours


def run(
    artifact: Path, inputs: Mapping[str, np.ndarray], level: Level, scratch: Path
) -> tuple[dict[str, np.ndarray], Counts]:
    """Run an artifact for `host` under QEMU: its outputs, and the instructions of the run."""
    manifest = read_manifest(artifact)
    build = started(emulated("aarch64"), "-cpu", level.model, *counting(f"{manifest.prefix}_run", scratch))
    engine = Process(find_target("host").sources(artifact), artifact, manifest, scratch, build)
    found = engine.run([inputs[port.name] for port in manifest.inputs])
    return dict(zip([port.name for port in manifest.outputs], found, strict=True)), counted(scratch / RESULT)


def show(rows: Sequence[Row]) -> int:
    """Print the table; returns the exit code."""
    shown = table("model", "level", "deploykit", "kinds", "onnxruntime", "kinds", "ratio")
    for row in rows:
        ratio = row.ratio()
        cells = [_millions(row.ours), _kinds(row.ours), _millions(row.peer), _kinds(row.peer)]
        last = "WRONG" if not row.within else "" if ratio is None else f"{ratio:.2f}"
        shown.add_row(row.model, row.level, *cells, last)
    results.print(shown)
    for row in rows:
        if row.without:
            results.print(f"{row.model}, {row.level}, without onnxruntime: {row.without}")
    return 0 if all(row.within for row in rows) else 1


def show_functions(counts: Counts) -> None:
    """Print the functions with the most instructions."""
    shown = table("function", ">instructions", ">share")
    for name, number in list(counts.by_symbol().items())[:25]:
        shown.add_row(name, f"{number:,}", f"{number / counts.kinds['all']:.1%}")
    results.print(shown)


def _millions(kinds: Mapping[str, int]) -> str:
    return f"{kinds['all'] / 1e6:,.1f} M" if kinds else "-"


def _kinds(kinds: Mapping[str, int]) -> str:
    return ", ".join(
        f"{name} {number / kinds['all']:.0%}" for name, number in kinds.items() if number and name != "all"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.arm64", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--level", action="append", choices=LEVELS, help="levels of CPUs (default: all)")
    parser.add_argument("--filter", action="append", metavar="NAME", help="models whose name contains this")
    parser.add_argument("--functions", action="store_true", help="list our functions with the most instructions")
    parser.add_argument("--output", type=Path, default=Path("build/bench-arm64"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
