"""`make bench`: times the models of `bench.cases` next to their peers, as one table.

    python -m bench [--quick] [--filter NAME] [--threads N] [--seconds S] [--peers NAME] [--no-static] [--no-memory]
                    [--output DIR]

A line is a model at one choice of sizes and threads. It has the median times of deploykit and of each installed peer of
`bench.peers`, measured in turn after their results were compared. `ratio` is the peer's time divided by ours: above 1
we are faster. `best` is the ratio to the fastest peer with correct results, and the name of that peer. `dynamic/static`
is our time divided by that of an artifact built for exactly these sizes. Each model also has the growth of peak
resident memory of each side in a process of its own, the time of the build, and the size of the artifact. DIR (default
`build/bench`) receives the table as `report.md`, `report.json` and `report.png`.

Exit code 1 if results differ from those of ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.cases import Case, named
from bench.peers import PEERS
from bench.report import Model, Report, Row
from bench.tables import show, write
from bench.worker import OURS, Job
from deploykit.artifact.folder import Artifact
from deploykit.artifact.manifest import read_manifest
from deploykit.checks.benchmark import Timing
from deploykit.cli.console import messages, text_seconds

QUICK = ("mlp", "encoder")
"""The models of `--quick`; each runs at one choice of sizes."""


@dataclass(frozen=True)
class Plan:
    """What to measure and where the files go."""

    folder: Path
    peers: tuple[str, ...]
    threads: tuple[int, ...]
    seconds: float
    static: bool
    memory: bool


def main() -> int:
    given = _arguments()
    cases = named(given.filter)
    if given.quick:
        cases = [replace(case, sizes=case.sizes[:1]) for case in cases if given.filter or case.name in QUICK]
    given.output.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        given.output,
        tuple(_present(given.peers or PEERS)),
        tuple(given.threads or ((1,) if given.quick else (1, 2))),
        given.seconds or (0.2 if given.quick else 3.0),
        given.static and not given.quick,
        given.memory,
    )
    report = Report((), ())
    for case in cases:
        model, rows = measure(case, plan)
        report = Report((*report.models, model), (*report.rows, *rows))
        write(report, given.output)
    show(report)
    return 1 if report.wrong else 0


def measure(case: Case, plan: Plan) -> tuple[Model, list[Row]]:
    """Measure one model; returns its rows."""
    folder = plan.folder / case.name
    folder.mkdir(exist_ok=True)
    path = _model_file(case, folder)
    messages.print(f"{case.name}: build")
    seconds = _build(path, case.dims, folder / "dynamic")
    static = _static(case, path, folder) if plan.static and case.dims else ()
    job = Job(
        "time",
        *(case.name, str(path), str(folder / "dynamic"), static, plan.peers),
        *(tuple(range(len(case.sizes))), 1, plan.seconds),
    )
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    for threads in plan.threads:
        messages.print(f"{case.name}: {threads} thread(s)")
        for found in _run(replace(job, threads=threads)):
            if "skipped" in found:
                skipped[found["skipped"]] = found["reason"]
                messages.print(f"  without {PEERS[found['skipped']].title}: {found['reason']}")
                continue
            times = {timing["name"]: Timing(**timing) for timing in found["timings"]}
            rows.append(Row(case.name, case.sizes[found["size"]], threads, times, found["wrong"]))
            messages.print(f"  {_line(rows[-1])}")
    memory = _memory(job, [name for name in plan.peers if name not in skipped]) if plan.memory else {}
    artifact = Artifact(folder / "dynamic", read_manifest(folder / "dynamic"))
    size = sum(file.bytes for file in artifact.manifest.files)
    return Model(case.name, seconds, size, memory, skipped), rows


def _memory(job: Job, peers: Sequence[str]) -> dict[str, int]:
    messages.print(f"{job.case}: memory")
    found = [
        result for side in (OURS, *peers) for result in _run(replace(job, kind="memory", peers=(side,), seconds=0))
    ]
    return {result["side"]: result["bytes"] for result in found}


def _model_file(case: Case, folder: Path) -> Path:
    """The file of the model. If the model has changed, the file that IREE compiled from the old one is removed."""
    path, data = folder / f"{case.name}.onnx", case.make().SerializeToString(deterministic=True)
    if not path.exists() or path.read_bytes() != data:
        path.with_suffix(".vmfb").unlink(missing_ok=True)
        path.write_bytes(data)
    return path


def _build(model: Path, dims: Mapping[str, Any], output: Path) -> float:
    """Run `deploykit build`; returns its seconds, including the start of Python."""
    ranges = [
        f"{name}={size[0]}..{size[1]}" if isinstance(size, tuple) else f"{name}={size}" for name, size in dims.items()
    ]
    options = [argument for text in ranges for argument in ("--dim", text)]
    start = time.perf_counter()
    call = [sys.executable, "-m", "deploykit", "build", str(model), "-o", str(output), "--no-cache", *options]
    subprocess.run(call, check=True, capture_output=True)
    return time.perf_counter() - start


def _static(case: Case, model: Path, folder: Path) -> tuple[str, ...]:
    """Build an artifact for each choice of sizes; returns their folders."""
    made = []
    for index, sizes in enumerate(case.sizes):
        messages.print(f"{case.name}: build for exact sizes {index + 1}/{len(case.sizes)}")
        _build(model, sizes, folder / f"static_{index}")
        made.append(str(folder / f"static_{index}"))
    return tuple(made)


def _run(job: Job) -> Iterator[Any]:
    """Run a job in a process of its own; yields its results as they arrive."""
    call = [sys.executable, "-m", "bench.worker"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(job)))
        process.stdin.close()
        for line in process.stdout:
            if line.startswith("result "):
                yield json.loads(line.removeprefix("result "))
    if process.returncode:
        messages.print(f"  {job.case} ended with exit code {process.returncode}")


def _present(peers: Iterable[str]) -> Iterator[str]:
    for name in peers:
        reason = PEERS[name].missing()
        if reason is None:
            yield name
        else:
            messages.print(f"without {PEERS[name].title}: {reason}")


def _line(row: Row) -> str:
    times = ", ".join(f"{side} {text_seconds(timing.median)}" for side, timing in row.times.items())
    return f"{row.label}: {times}{' WRONG' if row.wrong else ''}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few models and runs, to see that it works")
    parser.add_argument("--filter", action="append", metavar="NAME", help="models whose name contains this")
    parser.add_argument("--threads", type=int, action="append", metavar="N", help="default: 1 and 2")
    parser.add_argument("--seconds", type=float, help="for each line of the table (default: 3)")
    parser.add_argument("--peers", action="append", choices=tuple(PEERS), help="default: all")
    parser.add_argument("--no-static", dest="static", action="store_false", help="no artifacts for exact sizes")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="no processes for peak memory")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
