"""`make bench-gpu`: times models on a GPU, next to ncnn, IREE and MNN on the same one, as a table.

    python -m bench.gpu [--device DEVICE] [--filter NAME] [--seconds S] [--limit S] [--output DIR]

DEVICE is `vulkan` (the default) or `opencl`, or one with the class of GPUs that our kernels are made for, such as
`vulkan:software`. Each model runs with fixed sizes and a batch of 1, which is what ncnn takes. All sides run in turn in
one process, on the device that the driver gives first, after their results were compared with those of ONNX Runtime.
`ratio` is the peer's median time divided by ours: above 1 we are faster. A peer is left out, with the reason, if it is
not installed, has no driver for the device, cannot run a model, or needs more than `--limit` seconds to load it and run
it once. DIR (default `build/bench-gpu`) receives models and artifacts, and `report.json`.

Exit code 1 if our results differ from those of ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx

import deploykit
from bench.apart import apart
from bench.cases import CASES, named
from bench.peers import iree, mnn, ncnn
from bench.ragged.timing import in_turn
from bench.tables import mean
from bench.worker import inputs_of
from deploykit.artifact.devices import names_of
from deploykit.artifact.manifest import read_manifest
from deploykit.checks import reference
from deploykit.checks.comparison import compare
from deploykit.checks.reference import Runner
from deploykit.cli.console import messages, results, table, text_seconds
from deploykit.targets.host import class_of

OURS = "deploykit"


@dataclass(frozen=True)
class Peer:
    """What we are compared with. `load(model file, folder for its own files, device)` returns a function from inputs to
    outputs, by name, or raises what the peer raises if it cannot run the model."""

    modules: tuple[str, ...]
    devices: tuple[str, ...]
    load: Callable[[Path, Path, str], Runner]

    def missing(self, device: str) -> str | None:
        """Why the peer does not take part, or None."""
        if device not in self.devices:
            return f"it has no driver for {device}"
        try:
            for module in self.modules:
                import_module(module)
        except ImportError as error:
            return str(error)
        return None


def _ncnn(model: Path, folder: Path, _: str) -> Runner:
    return ncnn.load(model, folder)


def _iree(model: Path, _: Path, __: str) -> Runner:
    return iree.load_on_vulkan(model)


PEERS: Mapping[str, Peer] = {
    "ncnn": Peer(("ncnn",), ("vulkan",), _ncnn),
    "IREE": Peer(("iree.compiler.tools.import_onnx", "iree.runtime"), ("vulkan",), _iree),
    "MNN": Peer(("MNN",), ("vulkan", "opencl"), mnn.load),
}


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


@dataclass(frozen=True)
class Place:
    """Where the files of a model are, and the device that it is built for, which may have a class."""

    folder: Path
    model: str
    built_for: str

    @property
    def device(self) -> str:
        (name,) = names_of([self.built_for])
        return name

    @property
    def file(self) -> Path:
        return self.folder / f"{self.model}.onnx"

    @property
    def artifact(self) -> Path:
        return self.folder / self.model

    @property
    def inputs(self) -> Path:
        return self.folder / f"{self.model}.npz"

    def load(self, peer: str) -> Runner:
        return PEERS[peer].load(self.file, self.folder / f"{self.model}-{peer}", self.device)


def main() -> int:
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    (device,) = names_of([given.device])
    class_of([given.device])  # an unknown one is refused
    peers = []
    for name, peer in PEERS.items():
        reason = peer.missing(device)
        if reason is None:
            peers.append(name)
        else:
            messages.print(f"without {name}: {reason}")
    rows = []
    for case in named(given.filter):
        messages.print(f"{case.name}: build and time")
        rows.append(
            row_of(Place(given.output, case.name, given.device), case.single, peers, given.seconds, given.limit)
        )
        (given.output / "report.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return show(rows, peers)


def row_of(place: Place, sizes: Mapping[str, int], peers: Sequence[str], seconds: float, limit: float) -> Row:
    """Build a model and time it next to the peers that can run it, each step in a process of its own."""
    row = Row(place.model, sizes)
    failed = apart(partial(prepare, place, sizes))
    if failed is not None:
        row.without[OURS] = str(failed)
        return row
    for peer in peers:
        reason = apart(partial(attempt, place, peer), limit)
        if reason is not None:
            row.without[peer] = str(reason)
    found = apart(partial(measure, row, place, [peer for peer in peers if peer not in row.without], seconds))
    if isinstance(found, Row):
        return found
    row.without[OURS] = str(found)
    return row


def prepare(place: Place, sizes: Mapping[str, int]) -> None:
    """Write the model file, our artifact, and inputs."""
    case = CASES[place.model]
    place.file.write_bytes(fixed(case.make(), sizes).SerializeToString(deterministic=True))
    deploykit.build(place.file, output=place.artifact, devices=[place.built_for])
    np.savez(place.inputs, allow_pickle=False, **inputs_of(case, read_manifest(place.artifact), {}))


def attempt(place: Place, peer: str) -> str | None:
    """Load a model into a peer and run it once; returns the reason why that is not possible, or None."""
    try:
        place.load(peer)(_inputs(place))
    except Exception as error:  # noqa: BLE001 - each peer raises exceptions of its own
        return (str(error).splitlines() or [type(error).__name__])[0][:200]
    return None


def measure(row: Row, place: Place, peers: Sequence[str], seconds: float) -> Row:
    """Compare the results of our artifact and of peers with those of ONNX Runtime, and time them."""
    tolerance, inputs = CASES[row.model].tolerance, _inputs(place)
    with deploykit.open(place.artifact, device=place.device) as session:
        sides: dict[str, Runner] = {OURS: session.run} | {peer: place.load(peer) for peer in peers}
        wanted = reference.load(place.file, "onnxruntime", 1)(inputs)
        for side, run in sides.items():
            found = run(inputs)
            if not all(compare(key, found[key], wanted[key], tolerance).within for key in wanted):
                row.wrong.append(side)
        calls = {side: partial(run, inputs) for side, run in sides.items()}
        row.times |= {side: timing.median for side, timing in in_turn(calls, seconds).items()}
    return row


def _inputs(place: Place) -> dict[str, np.ndarray]:
    with np.load(place.inputs) as stored:
        return dict(stored)


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
    every = [ratio for row in rows for peer in peers if (ratio := row.ratio(peer)) is not None]
    for peer in peers:
        ratios = [ratio for row in rows if (ratio := row.ratio(peer)) is not None]
        if ratios:
            results.print(f"{peer}: geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}, {len(ratios)} model(s)")
    if every:
        results.print(f"all: geometric mean {mean(every):.2f}, least {min(every):.2f}")
    return 1 if any(OURS in row.wrong or OURS in row.without for row in rows) else 0


def _cell(row: Row, side: str) -> str:
    if side not in row.times:
        return "-"
    return f"{text_seconds(row.times[side])}{' WRONG' if side in row.wrong else ''}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="vulkan", help="vulkan, opencl, or one with a class (default: vulkan)")
    parser.add_argument("--filter", action="append", metavar="NAME", help="models whose name contains this")
    parser.add_argument("--seconds", type=float, default=5, help="for each model (default: 5)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a peer's first run (default: 120)")
    parser.add_argument("--output", type=Path, default=Path("build/bench-gpu"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
