"""The sides of a comparison: ways to run one batch of sequences of different lengths.

ragged              the artifact for ragged batches, on the packed batch
dense               the artifact of the model as it is, on the padded batch
dense sorted        the same, on the sorted batch
onnxruntime         ONNX Runtime, on the padded batch
onnxruntime sorted  the same, on the sorted batch
pytorch             PyTorch in eager mode, on the padded batch
pytorch jagged      PyTorch's jagged nested tensors, on the packed batch (`bench.ragged.jagged`)

Sorted sides run with the size of small batches that is the fastest for this batch of sequences. Arrays are padded and
sorted beforehand, which costs these sides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import deploykit
from bench.peers import PEERS, Bounds, Peer
from bench.ragged.batches import Arrays, Batch
from bench.ragged.models import TOLERANCE, Model
from bench.ragged.timing import once
from deploykit.checks import reference
from deploykit.checks.comparison import compare
from deploykit.sessions.session import Session

RAGGED, DENSE, ORT, TORCH = "ragged", "dense", "onnxruntime", "pytorch"
JAGGED = "pytorch jagged"
SORTED = " sorted"
SIDES = (RAGGED, DENSE, DENSE + SORTED, ORT, ORT + SORTED, TORCH, JAGGED)
OTHERS = (ORT, TORCH, JAGGED)
"""What the artifacts are compared with; takes part if its modules can be imported."""

SIZES = (1, 2, 4, 8, 16)
"""The sizes of small batches that sorted sides try."""

Run = Callable[[], object]
Runner = Callable[[Arrays], Mapping[str, np.ndarray]]


@dataclass
class Sides:
    """The runners of a model with some number of threads. `padding` are those of peers that take the padded batch,
    `packing` those of peers that take the packed one. `skipped` says why a peer does not take part."""

    ragged: Session
    dense: Session
    padding: dict[str, Runner] = field(default_factory=dict)
    packing: dict[str, Runner] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def load(model: Path, ragged: Path, dense: Path, peers: Sequence[str], threads: int) -> Sides:
    sides = Sides(deploykit.open(ragged, threads=threads), deploykit.open(dense, threads=threads))
    for name in peers:
        peer = _JAGGED if name == JAGGED else PEERS[name]
        reason = peer.missing()
        if reason is not None:
            sides.skipped[name] = reason
            continue
        try:
            runners = sides.packing if name == JAGGED else sides.padding
            runners[name] = peer.load(model, threads, {})
        except Exception as error:  # noqa: BLE001 - each peer raises exceptions of its own
            sides.skipped[name] = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return sides


def _jagged(model: Path, threads: int, _: Bounds) -> reference.Runner:
    from bench.ragged import jagged

    return jagged.load(model, threads)


_JAGGED = Peer("PyTorch jagged", "jagged", PEERS[TORCH].modules, _jagged)


def runs(sides: Sides, batch: Batch, clock: str = "wall") -> tuple[dict[str, Run], dict[str, int]]:
    """A function for each side that runs the batch, and the sizes that the sorted sides have chosen."""
    packed, padded = batch.packed(), batch.padded()
    found: dict[str, Run] = {RAGGED: lambda: sides.ragged.run(packed)}
    chosen: dict[str, int] = {}
    for name, runner in _padding(sides):
        found[name] = _several(runner, [padded])
        if name != TORCH:
            tried = {size: _several(runner, batch.sorted(size)) for size in SIZES if size < len(batch.lengths)}
            best = min(tried, key=lambda size: _quick(tried[size], clock))
            found[name + SORTED], chosen[name + SORTED] = tried[best], best
    for name, runner in sides.packing.items():
        found[name] = _several(runner, [packed])
    return found, chosen


def wrong(sides: Sides, batch: Batch, model: Model) -> list[str]:
    """The sides whose results are not those of the ragged artifact."""
    packed, padded = batch.packed(), batch.padded()
    ours: Any = sides.ragged.run(packed)[model.output]
    found = {name: batch.valid(runner(padded)[model.output]) for name, runner in _padding(sides)}
    found |= {name: runner(packed)[model.output] for name, runner in sides.packing.items()}
    return [name for name, values in found.items() if not compare(model.output, ours.values, values, TOLERANCE).within]


def _padding(sides: Sides) -> Iterator[tuple[str, Runner]]:
    yield DENSE, sides.dense.run
    yield from sides.padding.items()


def _several(runner: Runner, batches: Sequence[Arrays]) -> Run:
    def run() -> None:
        for batch in batches:
            runner(batch)

    return run


def _quick(run: Run, clock: str) -> float:
    """About the seconds of a run."""
    first = once(run, clock)
    return first if first > 2 else min(first, *(once(run, clock) for _ in range(2 if first > 0.1 else 5)))
