"""`make bench-android`: the size of a model's code for Android, the time to build it, and the time to its first result.

    python -m bench.android [--filter NAME] [--runs N] [--output DIR]

Each model is built once for all ABIs with kernels for Vulkan and OpenCL. A library's size is given as it is, and as the
zip format compresses it; the code that all ABIs share (Java classes and kernels of GPUs) is a row of its own, and
`in all` is what an app for this ABI grows by, compressed and without weights. Beside it are the native libraries of
peers, from the packages that are installed here, for this machine's CPU: they hold the operators of all models, and an
app adds its model's file to them.

`first result` is the time from an unpacked library and weights to the first result, on this machine's CPU with the
library for its ABI, in a new process with all Python modules imported; that of ONNX Runtime is the time from a model
file. Each is the median of N processes, which take turns.
DIR (default `build/bench-android`) receives models, artifacts and `report.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import deploykit
from bench.cases import CASES, Case, named
from bench.gpu import fixed
from bench.worker import inputs_of
from deploykit.artifact.manifest import read_manifest
from deploykit.cli.console import messages, results, table, text_seconds
from deploykit.targets.android.running import MACHINES
from deploykit.targets.android.weights_file import HASH_BYTES

USUAL = ("mobilenet", "dscnn", "resnet50", "minilm")
"""The models without `--filter`."""

PACKAGES = ("onnxruntime", "ncnn", "MNN", "openvino", "iree-base-runtime")
"""Packages with the native libraries of peers."""

_WEIGHTS = "weights.bin"


@dataclass(frozen=True)
class Size:
    """Bytes of a file or of several, as they are and compressed."""

    plain: int
    compressed: int

    def __add__(self, other: Size) -> Size:
        return Size(self.plain + other.plain, self.compressed + other.compressed)

    def __str__(self) -> str:
        return f"{self.plain / 1e3:,.0f} kB ({self.compressed / 1e3:,.0f})"


@dataclass(frozen=True)
class Row:
    """A model: seconds of its build, sizes by ABI, of what all ABIs share, and of its weights, and the median seconds
    to the first result by side."""

    model: str
    build: float
    libraries: Mapping[str, Size]
    shared: Size
    weights: int
    first: Mapping[str, float]


def main() -> int:
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    rows = []
    for case in named(given.filter) if given.filter else [CASES[name] for name in USUAL]:
        messages.print(f"{case.name}: build and time")
        rows.append(measure(case, given.runs, given.output))
        (given.output / "report.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    show(rows)
    return 0


def measure(case: Case, runs: int, folder: Path) -> Row:
    """Build a model for all ABIs, and time its first results."""
    model, artifact, inputs = (folder / f"{case.name}{end}" for end in (".onnx", "", ".npz"))
    made = case.make()
    model.write_bytes(made.SerializeToString(deterministic=True))
    start = time.perf_counter()
    deploykit.build(model, "android", dims=case.dims, output=artifact, devices=["vulkan", "opencl"])
    seconds = time.perf_counter() - start
    given: dict[str, Any] = inputs_of(case, read_manifest(artifact), case.single)
    np.savez(inputs, **given)
    model.write_bytes(fixed(made, case.single).SerializeToString(deterministic=True))
    files = folder / f"{case.name}-files"
    libraries, shared, weights = parts(next(artifact.rglob("*.aar")), files)
    for abi, machine in MACHINES.items():
        (files / machine).mkdir(parents=True)
        shutil.copy(next((artifact / abi).iterdir()), files / machine)
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(runs):
        for side, found in times.items():
            found.append(in_new_process(side, inputs, artifact if side == "deploykit" else model, files))
    return Row(case.name, seconds, libraries, shared, weights, {side: median(found) for side, found in times.items()})


def parts(archive: Path, files: Path) -> tuple[dict[str, Size], Size, int]:
    """The sizes of the libraries of an AAR by ABI, of its other code, and the bytes of its weights. Other code and
    weights are unpacked in `files`."""
    libraries: dict[str, Size] = {}
    shared, weights = Size(0, 0), 0
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            path = Path(entry.filename)
            data = opened.read(entry)
            if path.suffix == ".so":
                libraries[path.parent.name] = size_of([data])
                continue
            if path.suffix == ".jar" or path.name.startswith("kernels."):
                shared += size_of([data])
                path = Path(path.name)
            elif path.name == _WEIGHTS:
                weights = len(data)
                data, path = data[HASH_BYTES:], Path(path.name)
            else:
                continue
            place = files / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    return libraries, shared, weights


def size_of(files: Iterable[bytes]) -> Size:
    sizes = [Size(len(data), len(zlib.compress(data, 9))) for data in files]
    return sum(sizes, Size(0, 0))


def peers() -> dict[str, Size]:
    """The native libraries of each installed peer."""
    found = {}
    for package in PACKAGES:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        native = [Path(str(file.locate())) for file in files if ".so" in file.name]
        if native:
            found[f"{package} {metadata.version(package)}"] = size_of(path.read_bytes() for path in native)
    return found


SIDES = {
    "deploykit": """
from deploykit.artifact.manifest import read_manifest
from deploykit.engines import EngineOptions
from deploykit.engines.native.bionic import open_bionic
manifest = read_manifest(model)
library, scratch = next((files / platform.machine()).iterdir()), files / "scratch"
given = [inputs[port.name] for port in manifest.inputs]

def first():
    open_bionic(platform.machine(), library, files, files, manifest, scratch, EngineOptions()).run(given)
""",
    "onnxruntime": """
import onnxruntime

def first():
    onnxruntime.InferenceSession(model).run(None, inputs)
""",
}
"""What each side imports, and what it does from its files to its first result."""

_PROGRAM = """
import platform, sys, time
from pathlib import Path
import numpy as np
inputs, model, files = dict(np.load(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])
(files / "scratch").mkdir(exist_ok=True)
{side}
start = time.perf_counter()
first()
print(time.perf_counter() - start)
"""


def in_new_process(side: str, inputs: Path, model: Path, files: Path) -> float:
    """Seconds from the files of a side to its first result: of an artifact `model`, unpacked in `files`, or of an ONNX
    file."""
    call = [sys.executable, "-c", _PROGRAM.format(side=SIDES[side]), str(inputs), str(model), str(files)]
    return float(subprocess.run(call, capture_output=True, text=True, check=True).stdout)


def show(rows: Iterable[Row]) -> None:
    """Print the tables."""
    shown = table("model", "ABI", ">library", ">shared code", ">in all", ">weights", ">build", ">first result", ">ORT")
    for row in rows:
        ours, theirs = (text_seconds(row.first[side]) for side in SIDES)
        once = [f"{row.weights / 1e6:.1f} MB", text_seconds(row.build), ours, theirs]
        for number, (abi, size) in enumerate(row.libraries.items()):
            in_all = f"{(size + row.shared).compressed / 1e3:,.0f} kB"
            name = "" if number else row.model
            shown.add_row(name, abi, str(size), str(row.shared), in_all, *([""] * 4 if number else once))
    results.print(shown)
    others = table("peer", ">native libraries")
    for name, size in peers().items():
        others.add_row(name, f"{size.plain / 1e6:.1f} MB ({size.compressed / 1e6:.1f})")
    results.print(others)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.android", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--filter", action="append", metavar="NAME", help="models whose name contains this")
    parser.add_argument("--runs", type=int, default=7, help="processes for each model and side (default: 7)")
    parser.add_argument("--output", type=Path, default=Path("build/bench-android"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
