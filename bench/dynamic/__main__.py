"""`make bench-dynamic`: times batches of instances of dynamic models, next to DyNet, to ED-Batch, to PyTorch, and to
the same artifact without batches.

    python -m bench.dynamic [--model NAME] [--hidden N] [--batch N] [--threads N] [--quick] [--peers NAME] [--ablation]
                            [--turns N] [--clock CLOCK] [--output DIR]

A line is a model of `bench/dynamic/sources` with a hidden size, for a batch of instances. The artifact is built with
its weights and a few samples, from which it chooses its `policy`. `ours` is the median time of a run from encoded
instances, which is what callers in C and JavaScript give; `encoding` is the time to encode them in Python. `launches`
are those of cells, `least` is a bound below which no policy gets; a model that waits for tensors may need many more.

    over DyNet      the time of DyNet for the same weights and instances with its fastest strategy, to make and to
                    compute the graph (`bench.dynamic.dynet`; one thread), divided by ours: above 1 we are faster.
                    A strategy with wrong results does not count
    over ED-Batch   the same for ED-Batch, a fork of DyNet with learned automata; the column is there if it is installed
    over unbatched  the same for the artifact with the policy `alone`: each node in a launch of its own
    over PyTorch    the same for the source on tensors of PyTorch, an instance at a time
    not kernels     the share of control flow, scheduling, index arrays and calls of kernels. It is estimated: with a
                    hidden size of 4 kernels have next to no work, so the time of that model for the same batch, per
                    node, is what a node costs beside its kernels
    words, pool     the memory of control flow and scheduling, and of tensors; up to twice of what is in use

Results are compared with those of the source in Python. Exit code 1 if ours differ by more than 1e-4 of the largest.
With `--ablation` the table has a line for each technique that is left out (`deploykit.compiler.batching.techniques`),
for each policy, and for artifacts without fusion and with products that do not depend on the batch (`exact`). DIR
(default `build/bench-dynamic`) receives `report.md`, `report.json` and `report.png`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench.dynamic import dynet, eager
from bench.dynamic.cases import CASES, Case, Prepared, prepare
from bench.dynamic.report import ALONE, OURS, TORCH, Ablation, Report, Row, Technique
from bench.dynamic.sides import Artifact, Side, build, error, in_turn, memory, open_artifact, runs
from bench.ragged.timing import CLOCKS
from bench.tables import show, write
from deploykit.cli.console import messages, text_seconds
from deploykit.compiler.batching.graphs import Graph, lower_bound
from deploykit.compiler.batching.techniques import Techniques
from deploykit.compiler.batching.tracing import traced
from deploykit.dynamic.policies import POLICIES
from deploykit.frontends.python.models import import_model

PEERS = (*dynet.PEERS, "pytorch")
TOLERANCE = 1e-4
EMPTY_HIDDEN = 4
"""A hidden size at which kernels have next to no work."""
DYNET_REPEAT = 5
WITHOUT = {each.name: Techniques(**{each.name: False}) for each in fields(Techniques)}


@dataclass(frozen=True)
class Plan:
    """What to measure and where the files go."""

    folder: Path
    cases: tuple[Case, ...]
    hidden: tuple[int, ...]
    batches: tuple[int, ...]
    threads: tuple[int, ...]
    peers: tuple[str, ...]
    turns: int
    clock: str

    @cached_property
    def skipped(self) -> dict[str, str]:
        reasons = {name: peer.missing() for name, peer in dynet.PEERS.items()} | {"pytorch": eager.missing()}
        return {name: reason for name, reason in reasons.items() if reason and name in self.peers}


def main() -> int:
    given = _arguments()
    plan = _plan(given)
    plan.folder.mkdir(parents=True, exist_ok=True)
    if given.ablation:
        ablation = Ablation(clock=plan.clock)
        for techniques in ablated(plan):
            ablation = replace(ablation, rows=(*ablation.rows, *techniques))
            write(ablation, plan.folder)
        show(ablation)
        return 0
    report = Report(skipped=plan.skipped, clock=plan.clock)
    for row in measured(plan):
        report = replace(report, rows=(*report.rows, row))
        write(report, plan.folder)
    show(report)
    return 1 if report.wrong else 0


def measured(plan: Plan) -> Iterator[Row]:
    for case in plan.cases:
        empty = prepare(case, EMPTY_HIDDEN, plan.folder)
        messages.print(f"{case.name}: build")
        empty_folder = build(empty, plan.folder)
        for hidden in plan.hidden:
            prepared = prepare(case, hidden, plan.folder)
            folder = build(prepared, plan.folder)
            for batch in plan.batches:
                nothing = _per_node(empty, empty_folder, batch, plan)
                for threads in plan.threads:
                    row = _row(prepared, folder, batch, threads, nothing, plan)
                    times = ", ".join(f"{side} {text_seconds(seconds)}" for side, seconds in row.times.items())
                    messages.print(f"  {row.label}: {times}{' WRONG ' if row.wrong else ''}{' '.join(row.wrong)}")
                    yield row


def _per_node(empty: Prepared, folder: Path, batch: int, plan: Plan) -> float:
    """The seconds for each node without work in kernels."""
    structures = empty.structures(batch)
    artifact = open_artifact(folder, empty.instances(structures))
    seconds = in_turn({OURS: artifact.side(plan.clock)}, plan.turns)[OURS]
    return seconds / len(_graph(empty, artifact).cells)


def _graph(prepared: Prepared, artifact: Artifact) -> Graph:
    return traced(import_model(prepared.path, prepared.case.model, prepared.weights), artifact.instances)


def _row(prepared: Prepared, folder: Path, batch: int, threads: int, per_node: float, plan: Plan) -> Row:
    structures = prepared.structures(batch)
    artifact = open_artifact(folder, prepared.instances(structures), threads)
    expected, graph = prepared.expected(artifact.instances), _graph(prepared, artifact)
    sides: dict[str, Side] = {OURS: artifact.side(plan.clock), ALONE: artifact.side(plan.clock, "alone")}
    outputs = {OURS: artifact.outputs(), ALONE: artifact.outputs("alone")}
    if "pytorch" in plan.peers and "pytorch" not in plan.skipped:
        torch = eager.Eager(prepared, structures, threads)
        sides[TORCH], outputs[TORCH] = lambda: runs(torch.run, plan.clock), torch.outputs()
    for name, peer in dynet.PEERS.items():
        if prepared.case.name in dynet.TEXTS and name in plan.peers and name not in plan.skipped:
            for strategy in peer.strategies:
                side = f"{peer.name} {strategy}"
                sides[side] = _dynet(peer, prepared, structures, strategy, outputs, plan.clock)
    times = in_turn(sides, plan.turns)
    policy = artifact.session.policy
    words, pool = memory(folder, artifact, policy)
    errors = {side: error(found, expected) for side, found in outputs.items()}
    return Row(
        *(prepared.case.name, prepared.hidden, batch, threads, policy, times),
        encoding=in_turn({OURS: lambda: runs(artifact.encode, plan.clock)}, 1)[OURS],
        nodes=len(graph.cells),
        launches=artifact.launches(),
        bound=lower_bound(graph),
        overhead=per_node * len(graph.cells),
        words=words,
        pool=pool,
        errors=errors,
        wrong=[side for side, found in errors.items() if not found <= TOLERANCE],
    )


def _dynet(
    peer: dynet.Peer, prepared: Prepared, structures: Any, strategy: str, outputs: dict[str, np.ndarray], clock: str
) -> Side:
    """A turn of DyNet or ED-Batch, which notes its results."""

    def turn() -> list[float]:
        found = dynet.run(peer, prepared, structures, strategy, DYNET_REPEAT, clock)
        outputs[f"{peer.name} {strategy}"] = found.outputs
        return [found.times.construction + found.times.forward]

    return turn


def ablated(plan: Plan) -> Iterator[list[Technique]]:
    for case in plan.cases:
        for hidden in plan.hidden:
            prepared = prepare(case, hidden, plan.folder)
            messages.print(f"{case.name} hidden={hidden}: build")
            folders = {
                "": build(prepared, plan.folder),
                **{f"no {name}": build(prepared, plan.folder, without) for name, without in WITHOUT.items()},
                "no fusion": build(prepared, plan.folder, fuse=False),
                "exact": build(prepared, plan.folder, exact=True),
            }
            for batch in plan.batches:
                yield _techniques(prepared, folders, batch, plan)


def _techniques(prepared: Prepared, folders: Mapping[str, Path], batch: int, plan: Plan) -> list[Technique]:
    instances = prepared.instances(prepared.structures(batch))
    artifacts = {name: open_artifact(folder, instances, plan.threads[0]) for name, folder in folders.items()}
    ours = artifacts.pop("")
    own = ours.session.policy
    sides: dict[str, Side] = {f"all (policy {own})": ours.side(plan.clock)}
    launches = [ours.launches()]
    for policy in POLICIES:
        if policy != own:
            sides[f"policy {policy}"] = ours.side(plan.clock, policy)
            launches.append(ours.launches(policy))
    for name, artifact in artifacts.items():
        sides[name] = artifact.side(plan.clock)
        launches.append(artifact.launches())
    times = in_turn(sides, plan.turns)
    first = next(iter(times.values()))
    return [
        Technique(prepared.case.name, prepared.hidden, batch, name, seconds, count, seconds / first)
        for (name, seconds), count in zip(times.items(), launches, strict=True)
    ]


def _plan(given: argparse.Namespace) -> Plan:
    """The plan of the arguments. `--quick` changes the defaults."""
    quick = given.quick
    names = given.model or (("tree",) if quick else tuple(CASES))
    return Plan(
        given.output,
        tuple(CASES[name] for name in names),
        tuple(given.hidden or ((16,) if quick else (128,))),
        tuple(given.batch or ((4,) if quick else (32,))),
        tuple(given.threads or (1,)),
        tuple(name for name in given.peers or PEERS if name != "none"),
        given.turns or (1 if quick else 3),
        given.clock,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.dynamic", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add: Any = parser.add_argument
    add("--quick", action="store_true", help="a small model and batch, to see that it works")
    add("--model", action="append", choices=tuple(CASES), help="default: all")
    add("--hidden", type=int, action="append", metavar="N", help="default: 128")
    add("--batch", type=int, action="append", metavar="N", help="default: 32")
    add("--threads", type=int, action="append", metavar="N", help="default: 1")
    add("--peers", action="append", choices=(*PEERS, "none"), help="default: all")
    add("--ablation", action="store_true", help="replace each technique in turn, without peers")
    add("--turns", type=int, metavar="N", help="of each side (default: 3)")
    add("--clock", choices=tuple(CLOCKS), default="wall", help="cpu: computing time, for one thread on a busy machine")
    add("--output", type=Path, default=Path("build/bench-dynamic"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
