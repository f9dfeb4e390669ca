"""Measures one job in a process of its own: reads it as JSON from standard input, and prints a line of JSON per result.

Timing and peak memory are separate jobs. A timing job runs all sides in turn at each size, after comparing their
results. A memory job has one side. It reports the growth of peak resident memory since the side's modules were loaded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import deploykit
from bench.cases import CASES, Case
from bench.peers import PEERS
from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.checks.benchmark import in_turn
from deploykit.checks.comparison import compare
from deploykit.checks.reference import Runner
from deploykit.checks.samples import sample_inputs
from deploykit.checks.sources import RandomSource

OURS, STATIC = "deploykit", "static"
"""The names of two sides: the artifact with symbolic dims, and the artifacts built for exact sizes."""


@dataclass(frozen=True)
class Job:
    """One measurement. `kind` is `time` or `memory`. `peers` are names in `bench.peers`; for `memory` there is one,
    which may be `OURS`. `static` holds an artifact for each choice of sizes of the case, or is empty.
    """

    kind: str
    case: str
    model: str
    artifact: str
    static: tuple[str, ...]
    peers: tuple[str, ...]
    sizes: tuple[int, ...]
    threads: int
    seconds: float


def main() -> None:
    job = Job(**json.load(sys.stdin))
    measure = {"time": _time, "memory": _memory}[job.kind]
    # The prefix is needed because libraries may also print to standard output.
    measure(job, lambda result: print(f"result {json.dumps(result)}", flush=True))


def inputs_of(case: Case, manifest: Manifest, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    sources = {port.name: case.sources.get(port.name, RandomSource()) for port in manifest.inputs}
    return sample_inputs(manifest, sources, sizes)[0]


def _time(job: Job, report: Callable[[Any], None]) -> None:
    case = CASES[job.case]
    peers: dict[str, Runner] = {}
    for name in job.peers:
        try:
            peers[name] = PEERS[name].load(Path(job.model), job.threads, case.dims)
        except Exception as error:  # noqa: BLE001 - each peer raises exceptions of its own
            report({"skipped": name, "reason": _first_line(error)})
    with deploykit.open(job.artifact, threads=job.threads) as session:
        for index in job.sizes:
            inputs = inputs_of(case, session.manifest, case.sizes[index])
            sides: dict[str, Runner] = {OURS: session.run, **peers}
            if job.static:
                sides[STATIC] = deploykit.open(job.static[index], threads=job.threads).run
            within = _agree(case, sides, inputs)
            for name in [name for name in peers if name in within and within[name] is None]:
                report({"skipped": name, "reason": f"fails at {dict(case.sizes[index])}"})
                del sides[name]
            timings = in_turn({name: _call(side, inputs) for name, side in sides.items()}, job.seconds)
            wrong = sorted(name for name, right in within.items() if right is False)
            report({"size": index, "timings": [asdict(timing) for timing in timings], "wrong": wrong})


def _call(side: Runner, inputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
    return lambda: side(inputs)


def _agree(case: Case, sides: Mapping[str, Runner], inputs: Mapping[str, np.ndarray]) -> dict[str, bool | None]:
    """Whether each side has the results of our artifact, within the tolerance of the case; None for sides that fail."""
    ours = sides[OURS](inputs)
    agreed: dict[str, bool | None] = {}
    for name, side in sides.items():
        try:
            theirs = side(inputs)
        except Exception:  # noqa: BLE001 - each peer raises exceptions of its own
            agreed[name] = None
            continue
        agreed[name] = all(compare(key, ours[key], theirs[key], case.tolerance).within for key in ours)
    return agreed


def _memory(job: Job, report: Callable[[Any], None]) -> None:
    case, (side,) = CASES[job.case], job.peers
    manifest = read_manifest(Path(job.artifact))
    if side != OURS:
        PEERS[side].missing()
    inputs = [inputs_of(case, manifest, case.sizes[index]) for index in job.sizes]
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    before = _resident("VmRSS")
    run = (
        deploykit.open(job.artifact, threads=job.threads).run
        if side == OURS
        else PEERS[side].load(Path(job.model), job.threads, case.dims)
    )
    for arrays in inputs:
        run(arrays)
    report({"side": side, "bytes": _resident("VmHWM") - before})


def _resident(field: str) -> int:
    """Resident memory of this process in bytes: `VmRSS` is the current size, `VmHWM` the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]


if __name__ == "__main__":
    main()
