"""Compares the kernels of a model with the limits of this CPU, as a table and a picture for each choice of sizes.

    python -m bench.roofline [--threads N] [--seconds S] [--output DIR] [MODEL ...]

MODEL is a name in `bench.cases` (by default some of each kind). A kernel is placed by its operations per byte and its
operations per second. No kernel that takes its bytes from memory can be above the roof (Williams, Waterman and
Patterson, 2009), which `bench.peak` measures. `of roof` is the time that the roof allows divided by the measured time;
it is above 100 % if bytes come from caches. DIR (default `build/bench`) receives `roofline-<model>-<sizes>.png` and
`roofline.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

import deploykit
from bench.cases import CASES, Case
from bench.peak import Peak, measure
from bench.worker import inputs_of
from deploykit.artifact.manifest import read_manifest
from deploykit.checks.profiling import Profile, Work, profile
from deploykit.cli.console import messages, results, table, text_seconds

SHOWN = ("minilm", "gpt2", "resnet50", "mobilenet")
"""The default models."""
_NAMED = 10
"""How many kernels have their name in the picture."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=SHOWN, help=f"default: {', '.join(SHOWN)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each choice of sizes (default: 1)")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    given = parser.parse_args()
    unknown = [name for name in given.models if name not in CASES]
    if unknown:
        parser.error(f"there is no model {', '.join(unknown)}; there are {', '.join(CASES)}")
    given.output.mkdir(parents=True, exist_ok=True)
    messages.print("measuring the limits of this CPU")
    peak = measure(given.threads)
    results.print(
        f"{given.threads} thread(s): {peak.flops / 1e9:.0f} GFLOP/s, {peak.read / 1e9:.1f} GB/s read, "
        f"{peak.triad / 1e9:.1f} GB/s triad"
    )
    documents = []
    for name in given.models:
        case, folder = CASES[name], _built(CASES[name], given.output)
        manifest = read_manifest(folder)
        for sizes in case.sizes:
            inputs = inputs_of(case, manifest, sizes)
            found = profile(folder, inputs, sizes, threads=given.threads, seconds=given.seconds)
            label = " ".join([name, *(f"{dim}={size}" for dim, size in sizes.items())])
            _show(found, peak, label)
            draw(found, peak, label, given.output / f"roofline-{label.replace(' ', '-')}.png")
            documents.append(_document(found, peak, name, sizes))
    text = json.dumps({"peak": asdict(peak), "profiles": documents}, indent=1)
    (given.output / "roofline.json").write_text(f"{text}\n")


def of_roof(work: Work, peak: Peak) -> float | None:
    """The time that the roof allows, divided by the measured time; None if operations or bytes are not known."""
    if work.flops is None or work.traffic is None or not work.seconds:
        return None
    return peak.seconds(work.flops, work.traffic) / work.seconds


def draw(found: Profile, peak: Peak, title: str, path: Path) -> None:
    """Draw a PNG: kernels as discs below the roof, with areas by time."""
    from matplotlib.figure import Figure

    works = [work for work in found.kernels() if work.flops and work.traffic and work.seconds]
    figure = Figure(figsize=(10, 7.5), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    intensities = [_intensity(work) for work in works]
    low, high = min([0.05, *intensities]) / 2, max([64, *intensities]) * 2
    ridge = peak.flops / peak.read
    axes.loglog([low, ridge, high], [low * peak.read / 1e9, peak.flops / 1e9, peak.flops / 1e9], color="#333333")
    axes.text(high, 1.05 * peak.flops / 1e9, f"{peak.flops / 1e9:.0f} GFLOP/s", ha="right")
    axes.text(1.3 * low, low * peak.read / 1e9, f"{peak.read / 1e9:.1f} GB/s")
    for index, work in enumerate(works):
        place = (_intensity(work), (work.flops_per_second or 0) / 1e9)
        text = f"{index + 1}  {work.name[:44]}  {100 * found.share(work):.0f} %  {place[1]:.1f} GFLOP/s"
        area = 20 + 1500 * found.share(work)
        axes.scatter(*place, s=area, color=f"C{index % 10}", alpha=0.6, edgecolors="white")
        if index < _NAMED:
            axes.plot([], [], "o", color=f"C{index % 10}", alpha=0.6, label=text)
            axes.annotate(str(index + 1), place, ha="center", va="center", fontsize=7)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.1), ncols=2, fontsize=7, frameon=False)
    axes.set_xlabel("operations a byte of memory")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{title}, {peak.threads} thread(s), {text_seconds(found.seconds)}", loc="left")
    axes.grid(which="major", color="#eeeeee")
    axes.set_axisbelow(True)
    figure.savefig(path)


def _intensity(work: Work) -> float:
    return (work.flops or 0) / (work.traffic or 1)


def _built(case: Case, output: Path) -> Path:
    folder = output / case.name / "profiled"
    folder.parent.mkdir(parents=True, exist_ok=True)
    messages.print(f"{case.name}: build")
    path = folder.with_name(f"{case.name}.onnx")
    onnx.save(case.make(), path)
    deploykit.build(path, target="host", dims=case.dims, output=folder)
    return folder


def _show(found: Profile, peak: Peak, label: str) -> None:
    rows = table("kernel", ">calls", ">time", ">share", ">GFLOP/s", ">GB/s", ">FLOP/byte", ">of roof", title=label)
    for work in found.kernels():
        share = f"{100 * found.share(work):.1f} %"
        known = bool(work.flops and work.traffic)
        speeds = [
            _giga(work.flops_per_second),
            _giga(work.bytes_per_second),
            f"{_intensity(work):.1f}" if known else "",
        ]
        rows.add_row(
            work.name, str(work.calls), text_seconds(work.seconds), share, *speeds, _percent(of_roof(work, peak))
        )
    least = sum(peak.seconds(work.flops or 0, work.traffic or 0) for work in found.kernels())
    rows.add_row("all", "", text_seconds(found.seconds), "", "", "", "", _percent(least / found.seconds))
    results.print(rows)


def _document(found: Profile, peak: Peak, name: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    kernels = [{**asdict(w), "share": found.share(w), "of_roof": of_roof(w, peak)} for w in found.kernels()]
    return {"model": name, "sizes": sizes, "seconds": found.seconds, "kernels": kernels}


def _giga(value: float | None) -> str:
    return f"{value / 1e9:.1f}" if value else ""


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


if __name__ == "__main__":
    main()
