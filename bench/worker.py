"""One measurement in a process of its own: a job as JSON on standard input, a line of JSON a result on standard output.

Timing and peak memory are separate jobs. A timing job runs all sides by turns at each size, after their results were
compared; a memory job has one side, and tells by how much the peak of resident memory grew over what the process had
when the side's modules were loaded.
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
"""The artifact with symbolic dims, and the one built for exactly these sizes."""


@dataclass(frozen=True)
class Job:
    """`kind` is `time` or `memory`. `peers` are names in `bench.peers`, or for memory perhaps `OURS`; `static` holds an
    artifact for each size of the case, or is empty.
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
    # Libraries print to standard output as well.
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
    """Whether the others have the results of our artifact, within the tolerance of the case; None where they fail."""
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
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from here
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
    """Bytes of this process: `VmRSS` now, `VmHWM` at most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]


if __name__ == "__main__":
    main()
