"""Times web packages of dynamic models in node, next to the host artifact.

    python -m bench.dynamic.web [--model NAME] [--hidden N] [--batch N] [--turns N] [--clock CLOCK] [--quick]
                                [--output DIR]

A line is a model with a hidden size, for a batch of instances that are encoded, on WebAssembly with one thread.
`unbatched` is the time with the policy `alone`, each node in a launch of its own; `native` is the time of the host
artifact, called from Python with one thread. `over unbatched` is the first of them divided by the time of the package,
`x native` the time of the package divided by the second. Times are medians; the sides in node take turns.

Results are compared with those of the source in Python. Exit code 1 if they differ by more than 1e-4 of the largest.
DIR (default `build/bench-dynamic-web`) receives `report.md`, `report.json` and `report.png`. Needs node.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.dynamic.cases import CASES, Prepared, flat, plain, prepare
from bench.dynamic.sides import TURN_SECONDS, Artifact, build, error, in_turn, open_artifact
from bench.ragged.timing import CLOCKS
from bench.tables import bars, mean, show, write
from deploykit.cli.console import messages, text_seconds
from deploykit.dynamic.policies import POLICIES
from deploykit.engines.web.node import find_node, node_options
from deploykit.errors import ToolchainError
from deploykit.targets.webgpu import CPU_MODULES, WebTarget

PROGRAM = Path(__file__).with_name("web.mjs")
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Row:
    """Seconds of a batch of instances on WebAssembly, there without batches, and of the host artifact."""

    model: str
    hidden: int
    batch: int
    wasm: float
    alone: float
    native: float
    error: float

    @property
    def label(self) -> str:
        return f"{self.model} hidden={self.hidden} batch={self.batch}"


@dataclass(frozen=True)
class Report:
    clock: str
    rows: tuple[Row, ...] = ()

    @property
    def wrong(self) -> bool:
        return any(not row.error <= TOLERANCE for row in self.rows)

    def facts(self) -> dict[str, Any]:
        return {"clock": self.clock, "rows": [asdict(row) for row in self.rows]}

    def table(self) -> tuple[list[str], list[list[str]]]:
        columns = ["model", *(f">{name}" for name in ("hidden", "batch", "wasm", "unbatched", "native"))]
        return [*columns, ">over unbatched", ">x native", ">error"], [_cells(row) for row in self.rows]

    def summary(self) -> list[str]:
        over = [row.alone / row.wasm for row in self.rows]
        native = [row.wasm / row.native for row in self.rows]
        return [
            f"geometric means: {mean(over):.2f} over unbatched (least {min(over):.2f}), {mean(native):.2f} x native"
        ]

    def notes(self) -> list[str]:
        return [f"times are by the clock '{self.clock}', of one thread in node"]

    def picture(self, path: Path) -> None:
        bars({row.label: row.alone / row.wasm for row in self.rows}, "time of each node alone / in batches", path)


def _cells(row: Row) -> list[str]:
    times = map(text_seconds, (row.wasm, row.alone, row.native))
    ratios = row.alone / row.wasm, row.wasm / row.native
    return [row.model, str(row.hidden), str(row.batch), *times, *(f"{each:.2f}" for each in ratios), f"{row.error:.0e}"]


def main() -> int:
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    report = Report(given.clock)
    for row in measured(given):
        report = replace(report, rows=(*report.rows, row))
        write(report, given.output)
    show(report)
    return 1 if report.wrong else 0


def measured(given: argparse.Namespace) -> Iterator[Row]:
    target = WebTarget(CPU_MODULES)
    for name in given.model or (("tree",) if given.quick else tuple(CASES)):
        for hidden in given.hidden or ((16,) if given.quick else (128,)):
            prepared = prepare(CASES[name], hidden, given.output)
            messages.print(f"{name} hidden={hidden}: build")
            host = build(prepared, given.output)
            package = build(prepared, given.output / "web", target=target)
            for batch in given.batch or ((4,) if given.quick else (32,)):
                yield _row(prepared, host, package, batch, given)


def _row(prepared: Prepared, host: Path, package: Path, batch: int, given: argparse.Namespace) -> Row:
    instances = prepared.instances(prepared.structures(batch))
    artifact = open_artifact(host, instances)
    side = artifact.side(given.clock)
    before = in_turn({"native": side}, 1)["native"]
    wasm, alone, outputs = in_node(package, artifact, given.clock, given.turns)
    native = median([before, in_turn({"native": side}, 1)["native"]])
    difference = error(flat(outputs), prepared.expected(instances))
    return Row(prepared.case.name, prepared.hidden, batch, wasm, alone, native, difference)


def in_node(package: Path, artifact: Artifact, clock: str, turns: int) -> tuple[float, float, Any]:
    """The median seconds with the policy of the artifact and with `alone`, and the results."""
    chosen = [POLICIES[artifact.session.policy], POLICIES["alone"]]
    words = {name: array.tolist() for name, array in artifact.inputs.items()}
    file = package.with_suffix(".given.json")
    file.write_text(
        json.dumps({"instances": [plain(i) for i in artifact.instances], "words": words, "policies": chosen})
    )
    node = find_node()
    options = map(str, (PROGRAM, package, file, clock, turns, TURN_SECONDS))
    done = subprocess.run([node, *node_options(node), *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"node failed with exit code {done.returncode}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    ours, alone = (median(each) / 1e3 for each in found["times"])
    return ours, alone, found["results"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.dynamic.web", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add: Any = parser.add_argument
    add("--quick", action="store_true", help="a small model and batch, to see that it works")
    add("--model", action="append", choices=tuple(CASES), help="default: all")
    add("--hidden", type=int, action="append", metavar="N", help="default: 128")
    add("--batch", type=int, action="append", metavar="N", help="default: 32")
    add("--turns", type=int, default=3, metavar="N", help="of each side (default: 3)")
    add("--clock", choices=tuple(CLOCKS), default="wall", help="cpu: computing time, for a busy machine")
    add("--output", type=Path, default=Path("build/bench-dynamic-web"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
