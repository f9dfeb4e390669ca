"""`make demo`: builds models for every target, runs them, compares the results, and ends with a table.

    python -m bench.demo [--target TARGET] [--output DIR] [--markdown] [MODEL ...]

* `squeezenet`, `resnet50` and others: models in the onnx package, whose weights are constants of one value, compared
  with the outputs that the package stores for its inputs;
* `squeezenet-random` and others: the same models with random weights, compared with ONNX Runtime;
* `encoder`, `minilm`, `gpt2` and others: models of `bench.models` with symbolic dims, compared with ONNX Runtime at
  several sizes.

`host` runs native kernels, `embedded` plain C through this machine's C compiler, and `webgpu` WebAssembly in node,
whose times include the transfer of inputs and outputs. Targets that this machine cannot build and run are left out.
Without models and targets on the command line, the sample app for Android is built, too, where its archives are.
Times are medians on one thread, with ONNX Runtime timed in turn. Exit code 1 if a result is out of tolerance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import deploykit
from apps.android import build as android
from bench.cases import GENERATED, LIGHT
from bench.cases import Case as Measured
from bench.models import MODELS, light
from deploykit.artifact.folder import Artifact
from deploykit.checks.benchmark import Benchmark, bench
from deploykit.checks.comparison import Difference, compare
from deploykit.checks.sources import RandomSource
from deploykit.checks.verify import verify
from deploykit.cli.console import messages, results, table, text_bytes, text_seconds
from deploykit.errors import ToolchainError
from deploykit.targets.base import find_target

TARGETS = ("host", "embedded", "webgpu")
SHOWN = ("squeezenet", "squeezenet-random", "resnet50", "encoder")
"""The default models."""


Check = Callable[[Path, Path], list[Difference]]
"""Compares the outputs of an artifact (first path) with those of its model file (second path)."""


@dataclass(frozen=True)
class Case:
    """A model file and how to check and time it. `sizes` are those of its dims for timing."""

    name: str
    model: Path
    check: Check
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, RandomSource] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    case: Case
    artifact: Artifact
    differences: list[Difference]
    times: Benchmark
    build_seconds: float


def stored_outputs(artifact: Path, model: Path) -> list[Difference]:
    """Run on the inputs of the ONNX backend suite and compare with the outputs stored beside the model."""
    arrays = {}
    with deploykit.open(artifact) as session:
        for port in session.manifest.inputs:
            shape = tuple(int(extent) for extent in port.shape)
            count = int(np.prod(shape))
            arrays[port.name] = (np.arange(count).reshape(shape) / count).astype(np.float32)
        outputs = session.run(arrays)
    differences = []
    for index, port in enumerate(session.manifest.outputs):
        stored = onnx.load_tensor(model.with_name(f"{model.stem}_output_{index}.pb"))
        differences.append(compare(port.name, outputs[port.name], numpy_helper.to_array(stored)))
    return differences


def several_sizes(case: Measured) -> Check:
    """A check that compares with ONNX Runtime at several sizes of each dim."""

    def check(artifact: Path, model: Path) -> list[Difference]:
        report = verify(artifact, model, inputs=case.sources, tolerance=case.tolerance)
        return [difference for check in report.checks for difference in check.differences]

    return check


def cases(folder: Path) -> dict[str, Case]:
    """Every case by name; generated models are in `folder`."""
    stored = [Case(name, light.path_of(name), stored_outputs) for name in light.names()]
    random = [Case(f"{case.name}-random", folder / f"{case.name}-random.onnx", several_sizes(case)) for case in LIGHT]
    generated = [
        Case(case.name, folder / f"{case.name}.onnx", several_sizes(case), case.dims, case.sizes[0], case.sources)
        for case in GENERATED
    ]
    return {case.name: case for case in (*stored, *random, *generated)}


def write_model(case: Case) -> None:
    """Write the model file of a case, unless it is in the onnx package."""
    topology = case.name.removesuffix("-random")
    if case.name in MODELS:
        onnx.save(MODELS[case.name](), case.model)
    elif topology != case.name:
        onnx.save(light.with_random_weights(topology), case.model)


def try_out(case: Case, target: str, folder: Path) -> Row:
    """Build a case for a target, check it and time it."""
    start = time.perf_counter()
    artifact = deploykit.build(case.model, target=target, dims=case.dims, output=folder / case.name / target)
    assert artifact is not None
    build_seconds = time.perf_counter() - start
    differences = case.check(artifact.path, case.model)
    times = bench(artifact.path, at=case.sizes, inputs=case.sources, against="onnxruntime", model=case.model)
    return Row(case, artifact, differences, times, build_seconds)


COLUMNS = ("model", "target", ">files", ">bytes", ">peak memory", ">max error", ">time", ">ONNX Runtime", ">build")


def cells(row: Row) -> list[str]:
    manifest = row.artifact.manifest
    memory = manifest.peak_memory.at_bounds
    error = max(difference.absolute for difference in row.differences)
    sizes = ", ".join(f"{name}={size}" for name, size in row.case.sizes.items())
    peer = row.times.peer
    return [
        f"{row.case.name} ({sizes})" if sizes else row.case.name,
        manifest.target,
        str(len(manifest.files)),
        text_bytes(sum(file.bytes for file in manifest.files)),
        "" if memory is None else text_bytes(memory),
        f"{error:.1e}" if all(difference.within for difference in row.differences) else f"{error:.1e} WRONG",
        text_seconds(row.times.ours.median),
        "" if peer is None else text_seconds(peer.median),
        text_seconds(row.build_seconds),
    ]


def usable(names: Iterable[str]) -> Iterator[str]:
    """The targets that this machine can build and run; prints which ones are left out, and why."""
    for name in names:
        found = find_target(name).check()
        if found.build and found.run:
            yield name
        else:
            messages.print(f"without {name}: {found.detail}")


def show(rows: list[Row], *, markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(column.removeprefix(">") for column in COLUMNS) + " |")
        print("|" + "".join("---:|" if column.startswith(">") else "---|" for column in COLUMNS))
        for row in rows:
            print("| " + " | ".join(cells(row)) + " |")
        return
    rendered = table(*COLUMNS)
    for row in rows:
        rendered.add_row(*cells(row))
    results.print(rendered)
    for row in rows:
        if row.case.dims:
            formula = row.artifact.manifest.peak_memory.formula
            results.print(f"Peak memory of {row.case.name} for {row.artifact.manifest.target}: {formula} bytes")


def build_app(folder: Path) -> None:
    """Build the sample app for phones with 64-bit Arm, or say why that cannot be."""
    try:
        made = android.build(folder / "android-app", ["arm64-v8a"])
    except ToolchainError as error:
        messages.print(f"without the app for Android: {error}")
        return
    results.print(f"{made.apk}: an app for Android, {text_bytes(made.apk.stat().st_size)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: {', '.join(SHOWN)}; all: every model")
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: all")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="where the artifacts go")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    known = cases(arguments.output)
    unknown = set(arguments.models) - {*known, "all"}
    if unknown:
        parser.error(f"there is no model {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    present = list(usable(TARGETS))
    rows = []
    for name in known if arguments.models == ["all"] else arguments.models or SHOWN:
        write_model(known[name])
        for target in arguments.target or present:
            messages.print(f"{name} for {target}: build, run, compare, time")
            rows.append(try_out(known[name], target, arguments.output))
    show(rows, markdown=arguments.markdown)
    if not arguments.models and not arguments.target:
        build_app(arguments.output)
    return 0 if all(difference.within for row in rows for difference in row.differences) else 1


if __name__ == "__main__":
    sys.exit(main())
