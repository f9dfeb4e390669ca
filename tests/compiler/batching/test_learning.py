"""Tables that are learned from graphs, and what they are worth on others."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from deploykit.compiler.batching.graphs import lower_bound
from deploykit.compiler.batching.learning import learn, train
from deploykit.compiler.batching.policies import Policy, batches, launches
from deploykit.compiler.batching.tables import ENCODINGS, Encoding, Table
from tests.compiler.batching.workloads import chains, lattices, trees
from tests.runtime.queues import case_of, compiled


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_trees_need_no_table(encoding: Encoding) -> None:
    assert learn(trees(np.random.default_rng(1), 32), encoding=encoding) == Table(encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_taggers_are_learned(encoding: Encoding) -> None:
    graph, other = (chains(np.random.default_rng(seed), 32) for seed in (1, 2))
    table = learn(graph, encoding=encoding, episodes=60, trials=60)
    assert launches(graph, table) == lower_bound(graph) < launches(graph, Table(encoding))
    assert launches(other, table) == lower_bound(other)


def test_a_seed_gives_the_same_table() -> None:
    graph = lattices(np.random.default_rng(2), 4)
    tables = [learn(graph, seed=seed, episodes=40, trials=40) for seed in (5, 5)]
    assert tables[0] == tables[1]
    assert tables[0].entries().tolist() == tables[1].entries().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("cells", [2, 3])
def test_lattices(cells: int, capfd: pytest.CaptureFixture[str]) -> None:
    """The states say which cells are ready, not how long their chains are, so the lower bound is not reached."""
    graph, other = (lattices(np.random.default_rng(seed), 32, cells=cells) for seed in (1, 2))
    start = perf_counter()
    table = train(graph)
    seconds = perf_counter() - start
    policies: dict[str, Policy] = {p: p for p in ("depth", "agenda", "critical")} | {f"table ({table.encoding})": table}
    with capfd.disabled():
        print(f"\n{len(table.cells)} states learned in {seconds:.1f} s")
        for batch in (graph, other):
            counts = ", ".join(f"{name} {launches(batch, policy)}" for name, policy in policies.items())
            print(f"{np.bincount(batch.cells)} nodes: bound {lower_bound(batch)}, {counts}")
    assert launches(graph, table) <= 0.9 * min(launches(graph, "agenda"), launches(graph, "depth"))
    assert launches(graph, table) <= 1.5 * lower_bound(graph)
    assert launches(other, table) <= 0.95 * launches(other, "agenda")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_runtime_follows_the_table(encoding: Encoding, tmp_path: Path) -> None:
    program = compiled(tmp_path, "cc", ["-O1"])
    for cells in (2, 3):
        graph = lattices(np.random.default_rng(3), 8, cells=cells)
        table = learn(graph, encoding=encoding, episodes=40, trials=40)
        other = lattices(np.random.default_rng(4), 8, cells=cells)
        for lattice in (graph, other):
            (answer,) = program(case_of(lattice, policy="fsm", table=table))
            assert [(batch.cell, list(batch.nodes)) for batch in answer.batches] == batches(lattice, table)
