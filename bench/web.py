"""`make bench-web`: times web packages next to onnxruntime-web, in a page of headless Chromium, as a table.

    python -m bench.web [--part PART] [--filter NAME] [--device D] [--threads N] [--seconds S] [--output DIR]
        [--quantize KIND]

Part `speed`: the sides take turns of many runs: on WebAssembly with one thread each, then with two, then on WebGPU (in
software on a machine without a GPU). `ratio` is onnxruntime-web's median time divided by ours: above 1 we are faster.
`code` is the number of bytes that a page transfers besides the weights, with gzip.

With `--quantize int8` our packages have smaller weights, and onnxruntime-web also runs the model that ONNX Runtime
quantises dynamically, with scales for each channel. `cosine` is the similarity of our results to its float32.

Part `first`: the time from navigation to the first result, on one thread. Each side has its own Chromium, first with
empty caches, then once more with full ones. The times are medians of several browsers.

Needs chromium, and npm for onnxruntime-web. DIR (default `build/bench-web`) receives packages, models and
`report.json`. Exit code 1 if results differ.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import deploykit
from bench.browser import ISOLATED, in_chromium
from bench.cases import Case, named
from bench.peers.npm import install
from bench.tables import mean
from bench.worker import inputs_of
from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.cli.console import messages, results, table

PEER = "onnxruntime-web@1.30.0"
DEVICES = ("wasm", "webgpu")
THREADS = (1, 2)
PARTS = ("speed", "first")
FIRST = ("squeezenet",)
"""Models whose first result is timed."""
SIDES = ("ours", "peer")
BROWSERS = 3
"""How many browsers measure each time to a first result."""
CACHED = {"Cache-Control": "max-age=3600"}
TOLERANCE = 1e-3
"""The largest allowed difference of an element, relative to 1 plus its magnitude; a model may allow a larger one."""


def main() -> int:
    given = _arguments()
    given.output.mkdir(parents=True, exist_ok=True)
    folder = given.output.resolve()
    install(PEER, folder)
    jobs = [_job(case, folder, given.quantize) for case in named(given.filter)]
    for file in ("web.html", "first.html", "turns.mjs"):
        shutil.copyfile(Path(__file__).with_name(file), folder / file)
    parts = given.part or PARTS
    code = _speed(jobs, folder, given) if "speed" in parts else 0
    if "first" in parts:
        _first([job for job in jobs if job["name"] in FIRST], folder, given.device or DEVICES)
    return code


def _speed(jobs: Sequence[Mapping[str, Any]], folder: Path, given: argparse.Namespace) -> int:
    models = []
    for job in jobs:
        messages.print(f"{job['name']}: time")
        for device, threads in places(given.device or DEVICES, given.threads or THREADS):
            settings = {"jobs": [job], "seconds": given.seconds, "device": device, "threads": threads}
            (folder / "jobs.json").write_text(json.dumps(settings))
            found = in_chromium(folder, "web.html", seconds=600, headers=ISOLATED, gpu=device == "webgpu")
            place = device if device == "webgpu" else f"{device}, {threads} thread{'s' if threads > 1 else ''}"
            models += [{**model, "on": place, "tolerance": job["tolerance"]} for model in found["models"]]
            (folder / "report.json").write_text(json.dumps({**found, "models": models}, indent=1) + "\n")
    return _show(models, folder)


def _first(jobs: Sequence[Mapping[str, Any]], folder: Path, devices: Sequence[str]) -> None:
    shown = table("model, to its first result", "on", "cache", "deploykit", "onnxruntime-web", "ratio")
    for job, device in product(jobs, devices):
        messages.print(f"{job['name']}: time to the first result on {device}")
        (folder / "first.json").write_text(json.dumps({"job": job, "device": device}))
        times: dict[str, list[list[float]]] = {side: [] for side in SIDES}
        for _, side in product(range(BROWSERS), SIDES):
            found = in_chromium(folder, f"first.html?side={side}", headers=CACHED, gpu=device == "webgpu")
            if "failed" in found:
                raise RuntimeError(f"{job['name']}, {side}: {found['failed']}")
            times[side].append(found["times"])
        for index, cache in enumerate(("empty", "full")):
            ours, peer = (median(found[index] for found in times[side]) for side in SIDES)
            shown.add_row(job["name"], device, cache, f"{ours:.0f} ms", f"{peer:.0f} ms", f"{peer / ours:.2f}")
    if jobs:
        results.print(shown)


def places(devices: Sequence[str], threads: Sequence[int]) -> list[tuple[str, int]]:
    """The devices to time on, each with a number of threads."""
    found = [("wasm", number) for number in threads] + [("webgpu", 1)]
    return [(device, number) for device, number in found if device in devices]


def _job(case: Case, folder: Path, quantize: str | None) -> dict[str, Any]:
    """Build the package of a case, maybe with smaller weights; returns the job for the page."""
    messages.print(f"{case.name}: build")
    model = case.make()
    (folder / f"{case.name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    artifact = deploykit.build(model, "webgpu", case.dims, folder / case.name, quantize=quantize)
    assert artifact is not None
    sizes = [{"label": _label(sizes), "inputs": _inputs(case, artifact.manifest, sizes)} for sizes in case.sizes]
    allowed = max(TOLERANCE, case.tolerance.rtol, case.tolerance.atol) if case.tolerance else TOLERANCE
    return {
        "name": case.name,
        "folder": case.name,
        "model": f"{case.name}.onnx",
        "sizes": sizes,
        "tolerance": allowed if quantize is None else sys.float_info.max,
        "quantized": None if quantize is None else _quantized(folder, case.name),
    }


def _quantized(folder: Path, name: str) -> str:
    """Let ONNX Runtime quantise the peer's model; returns the name of the new file."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = f"{name}.int8.onnx"
    quantize_dynamic(folder / f"{name}.onnx", folder / target, per_channel=True, weight_type=QuantType.QInt8)
    return target


def _inputs(case: Case, manifest: Manifest, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """The shapes and ranges of the inputs, which the page fills."""
    found = []
    for name, array in inputs_of(case, manifest, sizes).items():
        source = case.sources.get(name)
        low, high = (source.low, source.high) if source is not None and array.dtype.kind == "i" else (0, 1)
        found.append({"name": name, "dtype": array.dtype.name, "shape": array.shape, "low": low, "high": high})
    return found


def _label(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _code_bytes(folder: Path, place: str) -> int:
    """Bytes, with gzip, of the files that a page loads besides the weights."""
    manifest = read_manifest(folder)
    code = ("model-gpu.wasm", "shaders.wgsl") if place == "webgpu" else ("model-relaxed.wasm",)
    loaded = ("index.mjs", *code)
    files = [f for f in manifest.files if f.name in loaded or f.name.startswith("runtime/")]
    return sum(f.gzip_bytes for f in files) + len(gzip.compress((folder / "manifest.json").read_bytes()))


def _show(models: Sequence[Mapping[str, Any]], folder: Path) -> int:
    shown = table(
        "model",
        "sizes",
        "on",
        "deploykit",
        "onnxruntime-web",
        "ratio",
        "load",
        "its load",
        "code",
        "error",
        "its int8",
        "ratio",
        "cosine",
    )
    ratios: dict[str, list[float]] = {}
    wrong = False
    for model in models:
        place = model["on"]
        if "failed" in model:
            shown.add_row(model["name"], model["failed"], place)
            wrong = True
        for index, row in enumerate(model["rows"]):
            ratio = row["peer"] / row["ours"]
            ratios.setdefault(place, []).append(ratio)
            wrong = wrong or not row["error"] <= model["tolerance"]
            times = (place, f"{row['ours']:.2f} ms", f"{row['peer']:.2f} ms", f"{ratio:.2f}")
            cells: tuple[str, ...] = (*times, *_once(model, folder, index), f"{row['error']:.0e}")
            if "narrow" in row:
                cells += (f"{row['narrow']:.2f} ms", f"{row['narrow'] / row['ours']:.2f}", f"{row['cosine']:.4f}")
            shown.add_row(model["name"], row["label"], *cells)
    results.print(shown)
    for place, found in ratios.items():
        results.print(f"{place}: geometric mean {mean(found):.2f}, least {min(found):.2f}")
    return 1 if wrong else 0


def _once(model: Mapping[str, Any], folder: Path, index: int) -> tuple[str, str, str]:
    """The cells that are the same for all rows of a model, shown on its first row: times to load, and size of code."""
    if index:
        return "", "", ""
    return (
        f"{model['ourLoad']:.0f} ms",
        f"{model['peerLoad']:.0f} ms",
        f"{_code_bytes(folder / model['name'], model['on']):,}",
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.web", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="what to time (default: both)")
    parser.add_argument("--filter", action="append", metavar="NAME", help="models whose name contains this")
    parser.add_argument("--device", action="append", choices=DEVICES, help="what to time on (default: both)")
    parser.add_argument("--threads", action="append", type=int, metavar="N", help="of each side (default: 1 and 2)")
    parser.add_argument("--seconds", type=float, default=3, help="for each line of the table (default: 3)")
    parser.add_argument("--quantize", choices=("int8",), help="build our packages with smaller weights")
    parser.add_argument("--output", type=Path, default=Path("build/bench-web"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
