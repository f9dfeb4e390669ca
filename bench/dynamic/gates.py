"""`python -m bench.dynamic.gates [--model NAME] [--hidden N] [--batch N] [--turns N] [--clock CLOCK]`: what it costs to
write the gates of a cell one by one.

A line is a model of `bench.dynamic.gate_sources` with a hidden size, for a batch of trees or sentences. Columns are the
lower deciles of the times of runs, in milliseconds, of artifacts in turn: gates one by one and merged by hand, without
(`apart`) and with what `deploykit.compiler.batching.layout` joins. `operators` are those of all cells as written and as
joined, and `ratio` is the time of gates one by one over that of merged ones, both joined.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

import deploykit
from bench.dynamic import gate_sources
from bench.dynamic.cases import CASES, load
from bench.dynamic.sides import Artifact, Side, open_artifact
from bench.ragged.timing import CLOCKS
from deploykit.cli.console import results, table

MODELS = ("TreeLSTM", "TreeGRU", "LSTM", "GRU")
SOURCE = Path(gate_sources.__file__)
SIDES = (("Separate", False), ("Separate", True), ("Merged", False), ("Merged", True))


def artifact(source: Path, model: str, batch: int, folder: Path, *, fuse: bool) -> Artifact:
    """An artifact, with a batch of instances. Without `fuse` the operators of its cells stay apart."""
    module = load(source, source.stem)
    case = CASES["tree" if model.startswith("Tree") else "tagger"]
    instances = [case.instance(module, each) for each in case.generate(batch)]
    deploykit.build(deploykit.load(f"{source}:{model}", fuse=fuse), output=folder)
    return open_artifact(folder, instances)


def row(model: str, hidden: int, batch: int, turns: int, clock: str, folder: Path) -> list[str]:
    source = folder / f"gates_{hidden}.py"
    source.write_text(re.sub(r"^HIDDEN = \d+$", f"HIDDEN = {hidden}", SOURCE.read_text(), flags=re.MULTILINE))
    built = {
        side: artifact(source, model + side[0], batch, folder / f"{model}-{hidden}-{side}", fuse=side[1])
        for side in SIDES
    }
    sides: dict[tuple[str, bool], Side] = {side: each.side(clock) for side, each in built.items()}
    samples: dict[tuple[str, bool], list[float]] = {side: [] for side in SIDES}
    for _ in range(turns):
        for side, run in sides.items():
            samples[side] += run()
    times = {side: quantiles(found, n=10, method="inclusive")[0] for side, found in samples.items()}
    dynamic = built["Separate", True].session.manifest.dynamic
    assert dynamic is not None
    counts = [sum(cell.written for cell in dynamic.cells), sum(cell.operators for cell in dynamic.cells)]
    ratio = times["Separate", True] / times["Merged", True]
    found = [f"{1e3 * times[side]:.3f}" for side in SIDES]
    return [model, str(hidden), *found, f"{counts[0]} -> {counts[1]}", f"{ratio:.3f}"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.dynamic.gates", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS, help="default: all")
    parser.add_argument("--hidden", type=int, action="append", metavar="N", help="default: 64, 128, 256, 512")
    parser.add_argument("--batch", type=int, default=32, metavar="N")
    parser.add_argument("--turns", type=int, default=8, metavar="N")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    given = parser.parse_args()
    names = ("one by one, apart", "one by one", "merged, apart", "merged")
    shown = table("model", ">hidden", *(f">{name}" for name in names), ">operators", ">ratio")
    with TemporaryDirectory() as name:
        for model in given.model or MODELS:
            for hidden in given.hidden or (64, 128, 256, 512):
                shown.add_row(*row(model, hidden, given.batch, given.turns, given.clock, Path(name)))
    results.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
