"""The queue of dynamic models: every policy launches each node once, in batches whose index arrays are right."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest

from deploykit import runtime
from deploykit.compiler.batching.cells import LARGE
from deploykit.compiler.batching.policies import Policy, batches
from deploykit.compiler.batching.tables import ENCODINGS, Encoding, Table, state_of
from deploykit.dynamic.policies import POLICIES
from deploykit.dynamic.traces import TRACE
from deploykit.engines.native.sanitized import SANITIZERS
from tests.runtime.queues import (
    OPTIONS,
    SOURCES,
    Answer,
    Case,
    Cell,
    Failure,
    Node,
    Program,
    compiled,
    random_case,
)

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = ["-Wconversion", "-Wshadow", "-Wcast-qual", "-O1"]

policies = pytest.mark.parametrize("policy", POLICIES)


@pytest.fixture(scope="module", params=COMPILERS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Stops at the first invalid access; the memory of a case has no element more than its capacities say."""
    return compiled(tmp_path_factory.mktemp("queue"), request.param, [*STRICT, *SANITIZERS])


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return compiled(tmp_path_factory.mktemp("fast"), "cc", ["-O2"])


def test_policies_have_the_same_numbers_everywhere() -> None:
    header = (runtime.BATCHING / "batching.h").read_text()
    found = re.findall(r"DK_POLICY_(\w+) = (\d+)", header)
    assert {name.lower(): int(number) for name, number in found} == POLICIES
    for name, number in {"DK_TRACE": TRACE, "DK_LARGE_NODE": LARGE}.items():
        assert re.search(rf"{name} = {number}\b", header)


def check(case: Case, answer: Answer) -> None:
    """Every rule that all policies keep."""
    assert answer.failure is None
    first_values = np.cumsum([case.inputs, *(len(case.cells[node.cell].elements) for node in case.nodes)]).tolist()
    places = {value: value for value in range(case.inputs)}
    taken = [(0, case.inputs)]
    for batch in answer.batches:
        cell = case.cells[batch.cell]
        assert batch.nodes
        for row, number in enumerate(batch.nodes):
            node = case.nodes[number]
            assert node.cell == batch.cell
            assert tuple(operand[row] for operand in batch.operands) == tuple(places[v] for v in node.operands)
        for index, elements in enumerate(cell.elements):
            assert batch.results[index] % 16 == 0
            taken.append((batch.results[index], batch.results[index] + elements * len(batch.nodes)))
            for row, number in enumerate(batch.nodes):
                assert first_values[number] + index not in places
                places[first_values[number] + index] = batch.results[index] + row * elements
    assert sorted(places) == list(range(first_values[-1]))
    used = sorted(span for span in taken if span[0] < span[1])
    assert all(before[1] <= after[0] for before, after in pairwise(used))
    first = 0
    for nodes, flush in zip(case.flushes, answer.flushes, strict=True):
        launched = sorted(number for batch in flush for number in batch.nodes)
        assert launched == list(range(first, first + len(nodes)))
        first += len(nodes)
    cells = [batch.cell for batch in answer.batches]
    assert answer.launches == tuple(cells.count(cell) for cell in range(len(case.cells)))


def expected(case: Case, policy: Policy) -> list[list[tuple[int, tuple[int, ...]]]]:
    """The batches of each flush: their cell, and their nodes in order."""
    return [
        [(cell, tuple(first + node for node in nodes)) for cell, nodes in batches(graph, policy)]
        for first, graph in case.graphs()
    ]


def check_as_simulated(program: Program, cases: list[Case]) -> None:
    for case, answer in zip(cases, program(*cases), strict=True):
        check(case, answer)
        found = [[(batch.cell, batch.nodes) for batch in flush] for flush in answer.flushes]
        assert found == expected(case, case.table if case.policy == "fsm" else case.policy)


@pytest.mark.sampled(part=10)
@pytest.mark.parametrize("policy", ["depth", "agenda", "critical", "alone"])
def test_random_graphs(program: Program, policy: str) -> None:
    check_as_simulated(program, [random_case(np.random.default_rng(seed), policy=policy) for seed in range(150)])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tables(program: Program, encoding: Encoding) -> None:
    """Some states are missing, and some name a cell that is not ready."""
    cases = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        case = random_case(random, policy="fsm")
        counts = [order for size in range(1, 5) for order in permutations((0, 0, 0, 1, 2, 3, 4)[-size - 2 :], 4)]
        states = {state_of(ready[: len(case.cells)], encoding) for ready in counts if any(ready[: len(case.cells)])}
        choices = {s: int(random.integers(len(case.cells))) for s in sorted(states) if random.random() < 0.7}
        cases.append(replace(case, table=Table.of(encoding, choices)))
    assert any(case.table.cells for case in cases)
    check_as_simulated(program, cases)


def test_depth_makes_one_batch_for_each_depth_and_cell(program: Program) -> None:
    nodes = (Node(1, (0,)), Node(0, (1,)), Node(0, (0,)), Node(1, (3,)), Node(0, (0,)), Node(1, (5,)))
    case = Case((Cell(1), Cell(1)), (nodes,))
    (answer,) = program(case)
    check(case, answer)
    assert [(batch.cell, batch.nodes) for batch in answer.batches] == [
        (0, (2, 4)),
        (1, (0,)),
        (0, (1,)),
        (1, (3, 5)),
    ]


def test_after_a_flush_what_it_computed_has_no_depth(program: Program) -> None:
    """Two instances go on together although their numbers of earlier steps differ."""
    case = Case((Cell(1),), ((Node(0, (0,)), Node(0, (1,)), Node(0, (0,))), (Node(0, (2,)), Node(0, (3,)))))
    (answer,) = program(case)
    assert [batch.nodes for batch in answer.flushes[1]] == [(3, 4)]


@pytest.mark.parametrize("policy", ["depth", "agenda", "critical", "fsm"])
def test_a_flush_of_large_nodes_is_several_flushes(program: Program, policy: str) -> None:
    """Each part has so many nodes that their results fill it."""
    cases, apart = [], []
    for seed in range(20):
        case = random_case(np.random.default_rng(seed), policy=policy, pool=1 << 20)
        cells = tuple(Cell(cell.operands, (4096, *[0] * (len(cell.elements) - 1))) for cell in case.cells)
        nodes = tuple(case.nodes)
        case = replace(case, cells=cells, flushes=(nodes,))
        cases.append(replace(case, part=5 * 4096 - 1))
        apart.append(replace(case, flushes=tuple(nodes[first : first + 5] for first in range(0, len(nodes), 5))))
    for case, ours, theirs in zip(cases, program(*cases), program(*apart), strict=True):
        check(case, ours)
        assert [(b.cell, b.nodes) for b in ours.batches] == [(b.cell, b.nodes) for b in theirs.batches]


def test_a_flush_of_small_nodes_is_one(program: Program) -> None:
    case = Case((Cell(1, (4000,)),), ((Node(0, (0,)),) * 9,), part=4096, pool=1 << 16)
    (answer,) = program(case)
    check(case, answer)
    assert [len(batch.nodes) for batch in answer.batches] == [9]


@policies
def test_nothing_to_flush(program: Program, policy: str) -> None:
    case = Case((Cell(1),), ((), (), (Node(0, (0,)),), ()), policy)
    (answer,) = program(case)
    check(case, answer)
    assert [len(flush) for flush in answer.flushes] == [0, 0, 1, 0]


@policies
@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("deep", [True, False])
def test_many_nodes(fast: Program, policy: str, deep: bool) -> None:
    count = 100_000
    case = Case((Cell(1),), (tuple(Node(0, (deep * number,)) for number in range(count)),), policy)
    answer, case = fast.enlarging(case)
    check(case, answer)
    assert len(answer.batches) == (count if deep or policy == "alone" else 1)


@pytest.fixture(scope="module")
def chain() -> Case:
    nodes = tuple(Node(0, (number,)) for number in range(1_000_000))
    return Case((Cell(1),), (nodes,), words=1 << 25, pool=1 << 25)


@pytest.mark.slow
@policies
def test_a_million_nodes_in_a_chain(fast: Program, chain: Case, policy: str, capfd: pytest.CaptureFixture[str]) -> None:
    (answer,) = fast(replace(chain, policy=policy))
    assert answer.launches == (1_000_000,)
    with capfd.disabled():
        print(f"\n{policy}: {answer.recording} ns to record a node, {answer.flushing} ns to launch it")


@policies
def test_a_flush_leaves_no_words_behind(program: Program, policy: str) -> None:
    case = Case((Cell(1),), ((Node(0, (0,)),) * 50, (Node(0, (7,)),) * 50), policy)
    (answer,) = program(case)
    nodes = len(case.nodes) * (3 + 2 + 1 + 1)
    assert answer.words_used == 1 + 2 + 2 * case.inputs + nodes


@policies
def test_each_failure_asks_for_enough(program: Program, policy: str) -> None:
    for seed in range(4):
        case = random_case(np.random.default_rng(seed), policy=policy, words=8, pool=8)
        answer, enlarged = program.enlarging(case)
        check(enlarged, answer)


@policies
def test_exactly_enough_memory_is_enough(program: Program, policy: str) -> None:
    """With a word less, there is a failure; the rest of the memory of a case is not touched."""
    case = random_case(np.random.default_rng(5), policy=policy)
    low, high = 1, case.words
    while low < high:
        middle = (low + high) // 2
        (answer,) = program(replace(case, words=middle))
        low, high = (middle + 1, high) if answer.failure else (low, middle)
    (answer,) = program(replace(case, words=low))
    check(case, answer)


def test_failures(program: Program) -> None:
    small = Case((Cell(1, (100,)),), ((Node(0, (0,)),) * 3,), pool=200)
    large = replace(small, cells=(Cell(1, (2**30,)),))
    words, pool, doubled, refused = program(replace(small, words=20), small, replace(small, pool=299), large)
    assert words.failure == Failure(
        5, 0, 40, "'memory of the control flow' needs 160 bytes, found 80; set capacity dim 'words' to 40"
    )
    assert pool.failure == Failure(
        5, 1, 400, "'pool of tensors' needs 1600 bytes, found 800; set capacity dim 'pool' to 400"
    )
    assert doubled.failure is not None
    assert doubled.failure.extent == 598
    assert refused.failure is not None
    assert (refused.failure.status, refused.failure.dim) == (5, -1)
    assert re.fullmatch(
        r"'pool of tensors' needs 12884901952 bytes, found \d+, more than a run can address: split the batch",
        refused.failure.text,
    )


FRAMES = """
#include "batching.h"
#include <stdio.h>
static int32_t words[64], launches[1];
static const dk_cell cells[1];
int main(void) {
    dk_queue queue = {0};
    int32_t parent, child[2], frame;
    queue.words = words;
    queue.word_count = 64;
    queue.cells = cells;
    queue.cell_count = 1;
    queue.launches = launches;
    words[0] = words[1] = 7;
    if (dk_queue_begin(&queue, 2, 1) != DK_OK) {
        return 1;
    }
    parent = dk_enter(&queue, 0, 7, 1, 0, 0);
    words[parent + DK_FRAME_PENDING] = 2;
    child[0] = dk_enter(&queue, 1, 6, 2, parent, 0);
    child[1] = dk_enter(&queue, 1, 6, 3, parent, 0);
    dk_wait(&queue, child[0], 0);
    dk_wait(&queue, child[1], 0);
    printf("%d %d ", (int)words[0], (int)dk_next_frame(&queue));
    dk_resume(&queue);
    frame = dk_next_frame(&queue);
    printf("%d ", frame == child[0]);
    frame = dk_leave(&queue, 1, frame);
    printf("%d ", frame == child[1]);
    printf("%d ", dk_leave(&queue, 1, frame) == parent);
    printf("%d ", dk_enter(&queue, 1, 6, 4, 0, 0) == child[1]);
    printf("%d ", dk_enter(&queue, 1, 6, 4, 0, 0) == child[0]);
    printf("%d", (int)dk_leave(&queue, 0, parent));
    return 0;
}
"""


def test_frames(tmp_path: Path) -> None:
    """Frames that waited go on in their order, the last call gives the parent, and frames are used again."""
    (tmp_path / "frames.c").write_text(FRAMES)
    subprocess.run(
        ["cc", *OPTIONS, *SANITIZERS, tmp_path / "frames.c", *SOURCES, "-o", tmp_path / "frames"], check=True
    )
    printed = subprocess.run([tmp_path / "frames"], check=True, capture_output=True, text=True).stdout
    assert printed == "7 0 1 1 1 1 1 0"


def test_header_compiles_as_cpp(tmp_path: Path) -> None:
    (tmp_path / "app.cpp").write_text('#include "batching.h"\nint main() {}\n')
    includes = [f"-I{runtime.INCLUDE}", f"-I{runtime.BATCHING}"]
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-std=c++11", "-fsyntax-only"]
    subprocess.run(["g++", *strict, *includes, tmp_path / "app.cpp"], check=True)


def test_only_string_functions_are_called(tmp_path: Path) -> None:
    subprocess.run(["gcc", *OPTIONS, "-O2", "-fno-pie", "-c", *SOURCES], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", *tmp_path.glob("*.o")], check=True, capture_output=True, text=True).stdout
    kinds = re.findall(r"^(?:[0-9a-f]{16}| {16}) (\w) (\S+)$", symbols, re.MULTILINE)
    undefined = {name for kind, name in kinds if kind == "U"} - {name for kind, name in kinds if kind != "U"}
    assert undefined <= {"memcpy", "memset", "memmove", "strlen"}
    assert not [name for kind, name in kinds if kind in "BbDdC"], "data that can be written"
