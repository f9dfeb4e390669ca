"""Graphs of cells, and what the queue of the runtime makes of them: a program that runs cases, and its two languages.

A case is a sequence of int32: the number of cells; for each its operands, numbers and results, and the elements of each
result; the policy; the elements of a part of a flush; the encoding, the number and the entries of the table; the
capacities of words and pool; the number of inputs; the number of all values; the number of flushes; for each the number
of nodes; for each node its cell, its operands, and its numbers. Operands are numbers of values: first the inputs, which
have one element, then the results of all nodes. The only number of a node is its own.

The answer: for each batch its cell, its count, the indices and the places of the results; -1 after each flush; after a
failure -2, the status, the dim, its extent, the length and the characters of the text; at the end -3, the launches of
each cell, the words used, and the nanoseconds for each node of recording and of flushing.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from deploykit import runtime
from deploykit.compiler.batching.graphs import Graph
from deploykit.compiler.batching.tables import ENCODINGS, Table
from deploykit.dynamic.policies import POLICIES

SOURCES = [source for source in (*runtime.QUEUE, *runtime.CORE) if source.suffix == ".c"]
OPTIONS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{runtime.INCLUDE}", f"-I{runtime.BATCHING}"]


@dataclass(frozen=True)
class Cell:
    operands: int
    elements: tuple[int, ...] = (1,)
    """Of each result."""


@dataclass(frozen=True)
class Node:
    cell: int
    operands: tuple[int, ...] = ()
    """Numbers of values."""


@dataclass(frozen=True)
class Case:
    cells: tuple[Cell, ...]
    flushes: tuple[tuple[Node, ...], ...]
    policy: str = "depth"
    part: int = 0
    table: Table = field(default_factory=Table)
    inputs: int = 1
    words: int = 1 << 16
    pool: int = 1 << 16

    @cached_property
    def nodes(self) -> list[Node]:
        return list(chain.from_iterable(self.flushes))

    def owners(self) -> list[int]:
        """For each value, the node that it is a result of; -1 for inputs."""
        results = [[number] * len(self.cells[node.cell].elements) for number, node in enumerate(self.nodes)]
        return [-1] * self.inputs + list(chain.from_iterable(results))

    def graphs(self) -> Iterator[tuple[int, Graph]]:
        """For each flush the number of its first node, and its graph: what earlier flushes computed is no operand."""
        first, owners = 0, self.owners()
        for nodes in self.flushes:
            read = [[owners[value] - first for value in node.operands if owners[value] >= first] for node in nodes]
            yield first, Graph.of([node.cell for node in nodes], read, len(self.cells))
            first += len(nodes)

    def numbers(self) -> Iterator[int]:
        yield len(self.cells)
        for cell in self.cells:
            yield from (cell.operands, 1, len(cell.elements), *cell.elements)
        entries = self.table.entries()
        yield from (POLICIES[self.policy], self.part, ENCODINGS.index(self.table.encoding), len(entries))
        yield from entries.ravel().view(np.int32).tolist()
        yield from (self.words, self.pool, self.inputs)
        yield self.inputs + sum(len(self.cells[node.cell].elements) for node in self.nodes)
        yield len(self.flushes)
        number = 0
        for nodes in self.flushes:
            yield len(nodes)
            for node in nodes:
                yield from (node.cell, *node.operands, number)
                number += 1


@dataclass(frozen=True)
class Batch:
    cell: int
    nodes: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    """For each operand, the places of its values in the pool."""
    results: tuple[int, ...]


@dataclass(frozen=True)
class Failure:
    status: int
    dim: int
    extent: int
    text: str


@dataclass(frozen=True)
class Answer:
    flushes: tuple[tuple[Batch, ...], ...]
    launches: tuple[int, ...] = ()
    words_used: int = 0
    recording: int = 0
    """Nanoseconds for each node."""
    flushing: int = 0
    failure: Failure | None = None

    @cached_property
    def batches(self) -> list[Batch]:
        return list(chain.from_iterable(self.flushes))


@dataclass
class _Reader:
    numbers: Sequence[int]
    at: int = 0

    def take(self, count: int) -> tuple[int, ...]:
        self.at += count
        return tuple(self.numbers[self.at - count : self.at])

    def one(self) -> int:
        return self.take(1)[0]

    def batch(self, cell: int, case: Case) -> Batch:
        count = self.one()
        operands = tuple(self.take(count) for _ in range(case.cells[cell].operands))
        return Batch(cell, self.take(count), operands, self.take(len(case.cells[cell].elements)))

    def answer(self, case: Case) -> Answer:
        flushes: list[tuple[Batch, ...]] = []
        batches: list[Batch] = []
        failure = None
        while (kind := self.one()) != -3:
            if kind == -2:
                status, dim, extent, length = self.take(4)
                failure = Failure(status, dim, extent, "".join(map(chr, self.take(length))))
            elif kind == -1:
                flushes.append(tuple(batches))
                batches = []
            else:
                batches.append(self.batch(kind, case))
        return Answer(tuple(flushes), self.take(len(case.cells)), self.one(), self.one(), self.one(), failure)


@dataclass(frozen=True)
class Program:
    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *cases: Case) -> list[Answer]:
        asked = b"".join(np.fromiter(case.numbers(), np.int32).tobytes() for case in cases)
        run = subprocess.run([self.path], input=asked, capture_output=True, check=False, env=self.environment)
        assert run.returncode == 0, run.stderr.decode()
        reader = _Reader(np.frombuffer(run.stdout, np.int32).tolist())
        return [reader.answer(case) for case in cases]

    def enlarging(self, case: Case) -> tuple[Answer, Case]:
        """Run with ever more memory, as each failure asks for."""
        for _ in range(64):
            (answer,) = self(case)
            if answer.failure is None:
                return answer, case
            assert answer.failure.dim >= 0, answer.failure
            grown = {("words", "pool")[answer.failure.dim]: answer.failure.extent}
            case = replace(case, **grown)
        raise AssertionError(answer.failure)


def random_case(random: np.random.Generator, **options: Any) -> Case:
    """Up to four cells and some flushes of up to sixty nodes. Most operands are recent values, some are inputs."""
    cells = [
        Cell(int(random.integers(0, 4)), tuple(random.integers(0, 40, random.integers(1, 4)).tolist()))
        for _ in range(random.integers(1, 5))
    ]
    inputs = int(random.integers(1, 5))
    values = inputs
    flushes = []
    for _ in range(random.integers(1, 4)):
        nodes = []
        for _ in range(random.integers(0, 60)):
            cell = int(random.integers(len(cells)))
            backwards = random.geometric(0.15, cells[cell].operands)
            nodes.append(Node(cell, tuple((values - backwards).clip(0).tolist())))
            values += len(cells[cell].elements)
        flushes.append(tuple(nodes))
    return Case(tuple(cells), tuple(flushes), inputs=inputs, **options)


def case_of(graph: Graph, **options: Any) -> Case:
    """A graph in one flush. Cells have as many operands as their nodes have at most; others read the input."""
    widths = [0] * graph.cell_count
    for cell, read in zip(graph.cell_of, graph.operands_of, strict=True):
        widths[cell] = max(widths[cell], len(read))
    nodes = [
        Node(cell, (*(operand + 1 for operand in read), *[0] * (widths[cell] - len(read))))
        for cell, read in zip(graph.cell_of, graph.operands_of, strict=True)
    ]
    return Case(tuple(map(Cell, widths)), (tuple(nodes),), **options)


def compiled(folder: Path, compiler: str, options: Iterable[str]) -> Program:
    sources = [Path(__file__).with_name("batching_test.c"), *SOURCES]
    subprocess.run([compiler, *OPTIONS, *options, *sources, "-o", folder / "queue"], check=True)
    return Program(folder / "queue")
