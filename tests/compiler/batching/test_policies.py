"""Policies simulated on graphs, and their bound from below."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from deploykit.compiler.batching.graphs import Graph, lower_bound
from deploykit.compiler.batching.policies import Policy, batches, launches
from deploykit.compiler.batching.tables import ENCODINGS, Encoding, State, Table, hash_of, state_of
from tests.compiler.batching.workloads import Builder, chains, lattices, trees

SIMPLE: tuple[Policy, ...] = ("depth", "agenda", "critical", "alone", Table())


def random_graph(seed: int, most: int = 59) -> Graph:
    random = np.random.default_rng(seed)
    count, cells = int(random.integers(1, most + 1)), int(random.integers(1, 5))
    operands = [random.integers(0, node, random.integers(0, 4) * (node > 0)).tolist() for node in range(count)]
    return Graph.of(random.integers(0, cells, count).tolist(), operands, cells)


@pytest.mark.parametrize("seed", range(40))
def test_each_node_runs_once_after_its_operands(seed: int) -> None:
    graph = random_graph(seed)
    for policy in SIMPLE:
        when = {node: at for at, (_, nodes) in enumerate(batches(graph, policy)) for node in nodes}
        assert sum(len(nodes) for _, nodes in batches(graph, policy)) == len(when) == len(graph.cells)
        for node, operands in enumerate(graph.operands_of):
            assert all(when[operand] < when[node] for operand in operands)
        assert lower_bound(graph) <= launches(graph, policy) <= len(graph.cells)


@pytest.mark.parametrize("seed", range(20))
def test_induced_graphs_have_the_same_ancestors(seed: int) -> None:
    """A node of the same cell is reached in the induced graph if it is reached in the graph."""
    graph = random_graph(seed)

    def ancestors(operands: list[list[int]]) -> list[set[int]]:
        found: list[set[int]] = []
        for read in operands:
            found.append(set(read).union(*(found[operand] for operand in read)))
        return found

    for node, before in enumerate(ancestors(graph.operands_of)):
        same = {other for other in before if graph.cell_of[other] == graph.cell_of[node]}
        assert ancestors(graph.induced)[node] == same


def fewest(graph: Graph) -> int:
    """Of all orders. A batch of all ready nodes of a cell is never worse than one of some of them."""
    count, reached = 0, {frozenset[int]()}
    while all(len(done) < len(graph.cells) for done in reached):
        count, reached = count + 1, {after for done in reached for after in successors(graph, done)}
    return count


def successors(graph: Graph, done: frozenset[int]) -> list[frozenset[int]]:
    """What can be computed after one more batch."""
    nodes = enumerate(zip(graph.cell_of, graph.operands_of, strict=True))
    ready = [(cell, node) for node, (cell, read) in nodes if node not in done and done.issuperset(read)]
    return [done.union(node for other, node in ready if other == cell) for cell in {cell for cell, _ in ready}]


@pytest.mark.parametrize("seed", range(40))
def test_no_order_needs_fewer_batches_than_the_bound(seed: int) -> None:
    graph = random_graph(seed, most=20)
    assert sum(map(max, zip(*graph.chains, strict=True))) <= lower_bound(graph) <= fewest(graph)


@pytest.mark.parametrize(
    ("chains", "least"),
    [
        (["aab", "baa"], 4),  # each cell by itself: 2 + 1
        (["abab", "baba"], 5),
        (["acab", "bcaa"], 6),  # `a` and `b` alone, as `c` has a batch anyway
        (["abc", "acb", ""], 4),
    ],
)
def test_chains_in_each_others_way(chains: list[str], least: int) -> None:
    made = Builder()
    for chain in chains:
        for at, cell in enumerate(chain):
            made.add("abc".index(cell), *[len(made.cells) - 1] * (at > 0))
    graph = made.graph()
    assert lower_bound(graph) == least
    assert fewest(graph) == least


def test_depth_is_best_for_trees_of_one_cell() -> None:
    graph = trees(np.random.default_rng(0), 32)
    assert launches(graph, "depth") == launches(graph, "agenda") == launches(graph, "critical") == lower_bound(graph)


def test_only_critical_paths_are_best_for_taggers() -> None:
    """By depth, the outputs of each depth are launched apart; the other rules launch some outputs too early."""
    graph = chains(np.random.default_rng(0), 32)
    others = [launches(graph, policy) for policy in ("depth", "agenda", Table())]
    assert launches(graph, "critical") == lower_bound(graph) < min(others)
    assert launches(graph, "depth") > 1.4 * lower_bound(graph)


@pytest.mark.parametrize(("cells", "excess"), [(2, 1.08), (3, 1.2)])
def test_critical_paths_need_the_fewest_launches_for_lattices(cells: int, excess: float) -> None:
    """In sum; for some batches of three cells, another rule needs fewer."""
    graphs = [lattices(np.random.default_rng(seed), 16, cells=cells) for seed in range(8)]
    found = sum(launches(graph, "critical") for graph in graphs)
    assert found <= excess * sum(map(lower_bound, graphs))
    for policy in ("depth", "agenda", Table()):
        assert found <= 0.92 * sum(launches(graph, policy) for graph in graphs)


def test_empty_graph() -> None:
    graph = Graph.of([], [], 2)
    assert [batches(graph, policy) for policy in SIMPLE] == [[]] * len(SIMPLE)
    assert lower_bound(graph) == 0


def test_states() -> None:
    ready = [2, 0, 5, 2]
    assert state_of(ready, "base") == (0, 2, 3)
    assert state_of(ready, "max") == (0, 2, 3, 2)
    assert state_of(ready, "sort") == (2, 0, 3)


def test_entries_are_found_by_probing() -> None:
    states: list[State] = [order for size in (1, 2, 3) for order in permutations(range(6), size)]
    table = Table.of("sort", {state: state[-1] for state in states})
    entries = table.entries()
    assert entries.dtype == np.uint32
    assert len(entries) == 512
    assert 2 * np.count_nonzero(entries[:, 0]) <= len(entries)
    for state in states:
        at = hash_of(state)
        while entries[at % len(entries), 0] not in {0, hash_of(state)}:
            at += 1
        assert entries[at % len(entries)].tolist() == [hash_of(state), state[-1]]
    assert Table().entries().tolist() == [[0, 0]]


def test_no_state_has_the_hash_of_none() -> None:
    assert hash_of((2166136261,)) == 1


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_cell_that_is_not_ready_is_not_chosen(encoding: Encoding) -> None:
    graph = lattices(np.random.default_rng(0), 4)
    wrong = Table(encoding, {hash_of(state_of(ready, encoding)): 2 for ready in ([1, 0, 0], [1, 1, 0], [0, 1, 0])})
    assert batches(graph, wrong) == batches(graph, Table(encoding))
