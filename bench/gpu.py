"""`make bench-gpu`: times models on a GPU, next to ncnn on the same one, as a table.

    python -m bench.gpu [--device vulkan|opencl] [--filter NAME] [--seconds S] [--output DIR]

Each model runs with fixed sizes and a batch of 1, which is what ncnn takes. All sides run in turn in one process, on
the device that the driver gives first, after their results were compared with those of ONNX Runtime. `ratio` is the
peer's median time divided by ours: above 1 we are faster. A peer that is not installed, or that cannot run a model, is
left out, with the reason. ncnn needs the packages `ncnn` and `pnnx` and runs on Vulkan only. DIR (default
`build/bench-gpu`) receives models and artifacts, and `report.json`.

Exit code 1 if our results differ from those of ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx

import deploykit
from bench.cases import CASES, Case, named
from bench.peers import ncnn
from bench.tables import mean
from bench.worker import inputs_of
from deploykit.checks import reference
from deploykit.checks.benchmark import in_turn
from deploykit.checks.comparison import compare
from deploykit.checks.reference import Runner
from deploykit.cli.console import messages, results, table, text_seconds

OURS = "deploykit"
USUAL = ("mobilenet", "squeezenet", "shufflenet", "resnet50", "vit", "minilm", "unet")
"""The models without `--filter`."""


@dataclass(frozen=True)
class Peer:
    """What we are compared with. `load(model file, folder for its own files)` returns a function from inputs to
    outputs, by name, or raises what the peer raises if it cannot run the model."""

    modules: tuple[str, ...]
    devices: tuple[str, ...]
    load: Callable[[Path, Path], Runner]

    def missing(self, device: str) -> str | None:
        """Why the peer does not take part, or None."""
        if device not in self.devices:
            return f"it does not run on {device}"
        try:
            for module in self.modules:
                import_module(module)
        except ImportError as error:
            return str(error)
        return None


PEERS: Mapping[str, Peer] = {"ncnn": Peer(("ncnn",), ("vulkan",), ncnn.load)}


@dataclass
class Row:
    """A model on a device: median seconds by side, which of the sides have wrong results, and why others have none."""

    model: str
    sizes: Mapping[str, int]
    times: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """How much slower a peer is, if both sides have right results."""
        if peer not in self.times or OURS not in self.times or {OURS, peer} & {*self.wrong}:
            return None
        return self.times[peer] / self.times[OURS]


def main() -> int:
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    peers = []
    for name, peer in PEERS.items():
        reason = peer.missing(given.device)
        if reason is None:
            peers.append(name)
        else:
            messages.print(f"without {name}: {reason}")
    cases = named(given.filter) if given.filter else [CASES[name] for name in USUAL]
    rows = []
    for case in cases:
        messages.print(f"{case.name}: build and time")
        rows.append(_apart(case, given.device, peers, given.seconds, given.output))
        (given.output / "report.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return show(rows, peers)


def _apart(case: Case, device: str, peers: Sequence[str], seconds: float, folder: Path) -> Row:
    """Measure a model in a process of its own, which a side may crash."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(measure, case.name, device, peers, seconds, folder).result()
        except BrokenProcessPool:
            return Row(case.name, case.sizes[0], without={OURS: "the process ended"})


def measure(name: str, device: str, peers: Sequence[str], seconds: float, folder: Path) -> Row:
    """Build a model and time it next to peers."""
    case = CASES[name]
    sizes = {**case.sizes[0], **({"batch": 1} if "batch" in case.dims else {})}
    row = Row(name, sizes)
    path = folder / f"{name}.onnx"
    path.write_bytes(fixed(case.make(), sizes).SerializeToString(deterministic=True))
    deploykit.build(path, output=folder / name, devices=[device])
    with deploykit.open(folder / name, device=device) as session:
        inputs = inputs_of(case, session.manifest, {})
        sides: dict[str, Runner] = {OURS: session.run}
        for peer in peers:
            try:
                sides[peer] = PEERS[peer].load(path, folder / f"{name}-{peer}")
                sides[peer](inputs)
            except Exception as error:  # noqa: BLE001 - each peer raises exceptions of its own
                sides.pop(peer, None)
                row.without[peer] = (str(error).splitlines() or [type(error).__name__])[0][:200]
        wanted = reference.load(path, "onnxruntime", 1)(inputs)
        for side, run in sides.items():
            found = run(inputs)
            if not all(compare(key, found[key], wanted[key], case.tolerance).within for key in wanted):
                row.wrong.append(side)
        row.times |= {time.name: time.median for time in in_turn(_calls(sides, inputs), seconds)}
    return row


def _calls(sides: Mapping[str, Runner], inputs: Mapping[str, np.ndarray]) -> dict[str, Callable[[], object]]:
    return {side: partial(run, inputs) for side, run in sides.items()}


def fixed(model: onnx.ModelProto, sizes: Mapping[str, int]) -> onnx.ModelProto:
    """The model with these sizes in the place of symbolic dims; the shapes of values are inferred again."""
    del model.graph.value_info[:]
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def show(rows: Sequence[Row], peers: Sequence[str]) -> int:
    """Print the table; returns the exit code."""
    shown = table("model", "sizes", OURS, *(title for peer in peers for title in (peer, "ratio")))
    for row in rows:
        cells = [_cell(row, OURS)]
        for peer in peers:
            ratio = row.ratio(peer)
            cells += [_cell(row, peer), "" if ratio is None else f"{ratio:.2f}"]
        shown.add_row(row.model, ", ".join(f"{name}={size}" for name, size in row.sizes.items()), *cells)
    results.print(shown)
    for row in rows:
        for side, reason in row.without.items():
            results.print(f"{row.model}, {side}: {reason}")
    for peer in peers:
        ratios = [ratio for row in rows if (ratio := row.ratio(peer)) is not None]
        if ratios:
            results.print(f"{peer}: geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}, {len(ratios)} model(s)")
    return 1 if any(OURS in row.wrong or OURS in row.without for row in rows) else 0


def _cell(row: Row, side: str) -> str:
    if side not in row.times:
        return "-"
    return f"{text_seconds(row.times[side])}{' WRONG' if side in row.wrong else ''}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=("vulkan", "opencl"), default="vulkan")
    parser.add_argument("--filter", action="append", metavar="NAME", help="models whose name contains this")
    parser.add_argument("--seconds", type=float, default=5, help="for each model (default: 5)")
    parser.add_argument("--output", type=Path, default=Path("build/bench-gpu"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
