"""An artifact of a dynamic model, ready to be timed, and turns of the sides of a comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import deploykit
from bench.dynamic.cases import Prepared, flat, plain
from bench.ragged.timing import CLOCKS
from deploykit.compiler.batching.choosing import with_policy
from deploykit.compiler.batching.model import cells_model
from deploykit.compiler.batching.techniques import ALL, Techniques
from deploykit.dynamic.encoding import encode
from deploykit.dynamic.policies import POLICIES
from deploykit.engines.native.in_process import InProcess
from deploykit.engines.native.loaded import Loaded
from deploykit.frontends.python.models import import_model
from deploykit.sessions.instances import signature_of
from deploykit.sessions.session import Session

SAMPLES = 8
"""The number of instances that a policy is learned from."""
TURN_SECONDS = 0.15
FEWEST_RUNS = 3

Side = Callable[[], Sequence[float]]
"""A turn of a side: the seconds of some runs."""


def build(prepared: Prepared, folder: Path, techniques: Techniques = ALL, **options: Any) -> Path:
    """Build an artifact with samples, which are not the instances of the measured batch. Options are those of
    `deploykit.build`."""
    left_out = [name for name, used in asdict(techniques).items() if not used]
    output = folder / "-".join(
        [prepared.case.name, str(prepared.hidden), *left_out, *(name for name in options if name != "target")]
    )
    samples = [plain(each) for each in prepared.instances(prepared.structures(SAMPLES, seed=1))]
    folder.mkdir(exist_ok=True)
    model = import_model(prepared.path, prepared.case.model, prepared.weights, techniques)
    deploykit.build(cells_model(with_policy(model, samples, None)), output=output, **options)
    return output


@dataclass(frozen=True)
class Artifact:
    """A session with encoded instances."""

    session: Session
    instances: Sequence[Any]
    inputs: Mapping[str, np.ndarray]

    def run(self, policy: str | None = None) -> Mapping[str, np.ndarray]:
        """A run as callers in C and JavaScript make it, who give arrays."""
        chosen = np.int32(POLICIES[policy or self.session.policy])
        return self.session.run({**self.inputs, "policy": np.asarray(chosen)})

    def side(self, clock: str, policy: str | None = None) -> Side:
        return lambda: runs(lambda: self.run(policy), clock)

    def encode(self) -> object:
        assert self.session.manifest.dynamic is not None
        return encode(signature_of(self.session.manifest.dynamic), self.instances)

    def launches(self, policy: str | None = None) -> int:
        return int(self.run(policy)["launches"].sum())

    def outputs(self, policy: str | None = None) -> np.ndarray:
        """What the model returns for all instances, flat."""
        own = self.session.policy
        self.session.policy = policy or own
        results = flat(self.session(self.instances))
        self.session.policy = own
        return results


def open_artifact(folder: Path, instances: Sequence[Any], threads: int = 1) -> Artifact:
    session = deploykit.open(folder, threads=threads)
    assert session.manifest.dynamic is not None
    encoded = encode(signature_of(session.manifest.dynamic), instances)
    inputs = {"instances": encoded.words, "roots": encoded.roots}
    if any(port.name == "elements" for port in session.manifest.inputs):
        inputs["elements"] = encoded.elements
    return Artifact(session, instances, inputs)


def memory(folder: Path, artifact: Artifact, policy: str) -> tuple[int, int]:
    """The bytes of control words and of the pool that a new engine gets for the batch. It doubles what is too small, so
    up to twice the bytes in use."""
    manifest = artifact.session.manifest
    given = {**artifact.inputs, "policy": np.asarray(np.int32(POLICIES[policy]))}
    library = next(path for path in folder.iterdir() if path.suffix in {".so", ".dylib"})
    engine = InProcess(Loaded(library, folder, manifest))
    engine.run([given[port.name] for port in manifest.inputs])
    sizes = dict(zip((dim.name for dim in manifest.dims), engine._model.dims, strict=False))  # noqa: SLF001  there is no public way
    return 4 * sizes["capacity_control"], 4 * sizes["capacity_pool"]


def runs(function: Callable[[], object], clock: str, seconds: float = TURN_SECONDS) -> list[float]:
    """The seconds of runs, after one that does not count."""
    read = CLOCKS[clock]
    function()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < FEWEST_RUNS or time.perf_counter() < end:
        start = read()
        function()
        found.append(read() - start)
    return found


def in_turn(sides: Mapping[str, Side], turns: int) -> dict[str, float]:
    """The median seconds of each side; the sides take turns, so that all see the same state of the machine."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, side in sides.items():
            samples[name] += side()
    return {name: median(found) for name, found in samples.items()}


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest result."""
    if found.shape != expected.shape:
        return np.inf
    return float(np.abs(found - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-30))
