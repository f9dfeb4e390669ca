"""Which parts of a trace run strip by strip, so that the fewest bytes are alive at once.

A chain is a run of launches of which each computes rows of its result from rows of what it reads (`rows`), and of which
only the last result is used elsewhere. For each chain the bytes are counted that are alive at each step if it runs
strip by strip; the chain with the lowest peak is taken, the shortest of several. This is repeated for the launches that
are left, as long as the peak goes down.

Sizes are those at the upper bounds of the dims. Nothing is computed twice, so chains cost no arithmetic. They cost
calls of kernels, copies of kept rows, and the code of a few kernels for the first and the last rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.dims import evaluate, free_vars
from deploykit.compiler.program.inplace import alias_in_place
from deploykit.compiler.program.ir import ALIGNMENT, Launch
from deploykit.compiler.program.lifetimes import lifetimes
from deploykit.compiler.program.sizes import element_count, item_bytes
from deploykit.compiler.program.steps import number_steps, reads_and_writes
from deploykit.compiler.program.strips.emitting import Chain, Ready, ReadyKernel, in_strips
from deploykit.compiler.program.strips.rows import IMAGE, ROW, RowKernels
from deploykit.compiler.program.strips.timetable import Stage
from deploykit.compiler.tir.values import static

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.program.trace import Buffer, Trace

LEAST_GAIN = 0.95
"""A chain is taken if it lowers the peak at least to this part."""

Rows = Callable[[str], "RowKernels | Declined"]
"""The kernels for the rows of a kernel, by its name."""


def chosen(trace: Trace, rows: Rows, ready: Ready) -> tuple[Trace, list[Chain]]:
    """`trace`, with chains that run strip by strip, and these chains."""
    upper = {dim.var: dim.maximum for dim in trace.signature.dims}
    sizes = _Sizes({var: maximum for var, maximum in upper.items() if maximum is not None})
    chains: list[Chain] = []
    while (chain := _best(trace, rows, sizes)) is not None:
        trace = in_strips(trace, chain, ready)
        chains.append(chain)
    return trace, chains


def _best(trace: Trace, rows: Rows, sizes: _Sizes) -> Chain | None:
    """The chain that lowers the peak most."""
    usual = sizes.peak(trace)
    if usual is None:
        return None
    best, lowest = None, int(usual.bytes * LEAST_GAIN)
    for chain in _chains(trace, rows, usual):
        peak = sizes.peak(in_strips(trace, chain, _unready))
        if peak is not None and (peak.bytes, len(chain.stages)) < (lowest, len(best.stages) if best else 0):
            best, lowest = chain, peak.bytes
    return best


def _unready(_launch: Launch, _stage: Stage, _number: int) -> ReadyKernel:
    return ReadyKernel(-1)


def _chains(trace: Trace, rows: Rows, peak: Peak) -> Iterator[Chain]:
    """All chains of at least two launches that hold all steps of the peak: elsewhere a chain lowers nothing."""
    used = _Uses(trace)
    for first in range(peak.first + 1):
        building = _Building(trace, first, used)
        for step in trace.steps[first:]:
            if not isinstance(step, Launch) or not building.add(step, rows):
                break
            chain = building.chain()
            if chain is not None and chain.stop > peak.last:
                yield chain


@dataclass(frozen=True)
class Peak:
    """The most `bytes` that are alive at a step, and the first and the last of the top-level steps where they are."""

    bytes: int
    first: int
    last: int


class _Uses:
    """The numbers of the top-level steps that use each buffer; -1 for a result of the function."""

    def __init__(self, trace: Trace) -> None:
        self.of: dict[int, set[int]] = {}
        position = -1
        for numbered in number_steps(trace.steps):
            position += numbered.depth == 0
            for tensor in (tensor for tensors in reads_and_writes(numbered.step) for tensor in tensors):
                self.of.setdefault(trace.tensors[tensor].buffer, set()).add(position)
        for tensor in trace.results:
            self.of.setdefault(trace.tensors[tensor].buffer, set()).add(-1)


@dataclass
class _Building:
    """A chain that begins at step `first` and gets longer."""

    trace: Trace
    first: int
    uses: _Uses
    stages: list[Stage] = field(default_factory=list)
    makers: dict[int, int] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)

    def add(self, launch: Launch, rows: Rows) -> bool:
        """Add a stage, if it can be one."""
        if launch.outputs != 1 or any(tensor in self.trace.starts for tensor in launch.tensors):
            return False
        found = rows(self.trace.pool.kernels[launch.kernel].name)
        if isinstance(found, Declined) or (self.stages and self.stages[-1].rows.sums is not None):
            return False
        end = len(launch.tensors) - launch.workspaces - 1
        made_by = {}
        for position, tensor in enumerate(launch.tensors[:end]):
            maker = self.makers.get(self.trace.tensors[tensor].buffer)
            source = found.sources.get(position)
            if maker is None and source is None:
                continue
            if source is None or (maker is not None and not (source.axis == ROW and self._alike(tensor, maker))):
                return False
            if maker is not None:
                made_by[position] = maker
            elif not all(static(n) is not None for n in self.trace.tensors[tensor].shape[1:]):
                return False
        result = self.trace.tensors[launch.tensors[end]]
        if result.buffer in {self.trace.tensors[tensor].buffer for tensor in launch.tensors[:end]}:
            return False
        if self.results and not _equal(self._images(), result.shape[IMAGE]):
            return False
        self.makers[result.buffer] = len(self.stages)
        self.results.append(launch.tensors[end])
        self.stages.append(Stage(found, made_by))
        return True

    def chain(self) -> Chain | None:
        """The chain, if nothing else uses results other than the last."""
        within = range(self.first, self.first + len(self.stages))
        buffers = [self.trace.tensors[tensor].buffer for tensor in self.results]
        closed = all(use in within for buffer in buffers[:-1] for use in self.uses.of[buffer])
        read = {maker for stage in self.stages for maker in stage.made_by.values()}
        if len(self.stages) < 2 or not closed or len(read) < len(self.stages) - 1:
            return None
        return Chain(self.first, tuple(self.stages), self._images())

    def _images(self) -> IntExpr:
        return self.trace.tensors[self.results[0]].shape[IMAGE]

    def _alike(self, tensor: int, maker: int) -> bool:
        """Whether a tensor has its rows where the result of a stage has them: one may be a view of the other."""
        one, other = self.trace.tensors[tensor].shape, self.trace.tensors[self.results[maker]].shape
        sizes = [(shape[IMAGE], shape[ROW], element_count(shape[ROW + 1 :])) for shape in (one, other)]
        return all(_equal(a, b) for a, b in zip(*sizes, strict=True))


def _equal(one: IntExpr, other: IntExpr) -> bool:
    if isinstance(one, int) or isinstance(other, int):
        return static(one) is not None and static(one) == static(other)
    return bool(tvm_ffi.structural_equal(one, other))


@dataclass(frozen=True)
class _Sizes:
    """The bytes of buffers if dims have the values `upper`."""

    upper: Mapping[tirx.Var, int]

    def peak(self, trace: Trace) -> Peak | None:
        """Where the most bytes of the arena are alive. None if sizes depend on more than dims."""
        outputs = {trace.tensors[tensor].buffer for tensor in trace.results}
        spans = lifetimes(trace, alias_in_place(trace, outputs))
        own = {b: span for b, span in spans.items() if trace.buffers[b].source[0] == "memory" and b not in outputs}
        if not own or any(var not in self.upper for b in own for var in free_vars(trace.buffers[b].elements)):
            return None
        changes: Counter[int] = Counter()
        for buffer, (first, last) in own.items():
            size = self._bytes(trace.buffers[buffer])
            changes[first] += size
            changes[last + 1] -= size
        numbers = [numbered.number for numbered in number_steps(trace.steps) if numbered.depth == 0]
        alive = list(accumulate(changes[step] for step in range(max(changes) + 1)))
        most = max(alive)
        steps = [bisect_right(numbers, step) - 1 for step, size in enumerate(alive) if size == most]
        return Peak(most, steps[0], steps[-1])

    def _bytes(self, buffer: Buffer) -> int:
        size = evaluate(buffer.elements, self.upper) * item_bytes(buffer.dtype)
        return -(-size // ALIGNMENT) * ALIGNMENT
