"""Attention on GPUs, without a matrix of scores: the softmax is computed online, key by key.

With many query rows, each invocation has a row. Its query and its sums stay in registers. Neighbouring invocations have
rows of the same head, and read the same keys and values at the same time. With a few rows, as in a decoding step,
each team has a row: its invocations divide the keys among them and add up their sums at the end. If the number of rows
is symbolic, there is a shader for each case, and one of them does nothing. See `schedules.attention` for the formulas
and their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.schedules.attention import problem_of
from deploykit.compiler.schedules.attention.problem import AttentionProblem
from deploykit.compiler.schedules.gpu.team import Way, agreed, once, shared_out
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import Opaque, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import as_index, const, static

WIDEST = 128
"""The most elements of a head that stays in registers."""

DTYPE = "float32"


def attention(stages: Sequence[Stage | Opaque], views: Views, gpu: Gpu) -> list[Way] | Declined:
    """Ways that together compute all of `stages`, or the reason why they are not attention."""
    problem = problem_of(stages, views)
    if isinstance(problem, Declined):
        return problem
    if max(problem.depth, problem.width) > WIDEST:
        return Declined(f"its heads are larger than {WIDEST}")
    rows = as_index(problem.rows.extent)
    lead = [as_index(axis.extent) for axis in problem.lead]
    total = rows
    for extent in lead:
        total = total * extent
    count, most = static(rows), gpu.kind.few_queries
    if count is None:
        few, none = rows <= most, const(0)
        extents: dict[bool, Expr] = {True: tirx.Select(few, total, none), False: tirx.Select(few, none, total)}
    else:
        extents = {count <= most: total}

    def way(team: bool, extent: Expr) -> Way:
        def at(index: Expr) -> tirx.Stmt:
            code = Code()
            *places, row = (code.let("place", place) for place in unravel(index, [*lead, rows]))
            code.add(_Row(problem, places, row, team, gpu.lanes).statement())
            return code.statement()

        return Way(loop("task", extent, at, tirx.ForKind.PARALLEL), team)

    return [way(team, extent) for team, extent in extents.items()]


@dataclass(frozen=True)
class _Row:
    """A row of a head, computed by an invocation or by a `team`, in vectors of `lanes` if they divide the head."""

    problem: AttentionProblem
    lead: Sequence[Expr]
    row: Expr
    team: bool
    lanes: int

    def statement(self) -> tirx.Stmt:
        problem, lead, row = self.problem, self.lead, self.row
        code = Code()
        queries, sums = local("queries", problem.depth, DTYPE), local("sums", problem.width, DTYPE)
        peak, total, score, power = (local(name, 1, DTYPE) for name in ("peak", "total", "score", "power"))
        code.add(*map(tirx.AllocBuffer, (queries, sums, peak, total, score, power)))
        code.add(*self._each(problem.depth, lambda d: _set(queries, problem.query(lead, row, d), d)))
        code.add(*self._each(problem.width, lambda w: _set(sums, tirx.const(0, DTYPE), w)))
        code.add(_set(peak, tirx.min_value(DTYPE)), _set(total, tirx.const(0, DTYPE)))

        def weaker() -> list[tirx.Stmt]:
            """Shrink the earlier sums by the power."""
            return [
                _set(total, total[0] * power[0]),
                *self._each(problem.width, lambda w: _set(sums, sums[w] * power[0], w)),
            ]

        def added(key: Expr, w: Expr) -> Expr:
            return sums[w] + power[0] * problem.value(lead, key, w)

        def at_key(key: Expr) -> tirx.Stmt:
            inner = Code()
            inner.add(_set(score, problem.score(lead, row, key, self._product(queries, key, inner))))
            rise = [_set(power, tirx.exp(peak[0] - score[0])), *weaker(), _set(peak, score[0])]
            inner.add(tirx.IfThenElse(score[0] > peak[0], sequence(rise), None))
            inner.add(_set(power, tirx.exp(score[0] - peak[0])), _set(total, total[0] + power[0]))
            inner.add(*self._each(problem.width, lambda w: _set(sums, added(key, w), w)))
            return inner.statement()

        start, stop = problem.visited(lead, row, row)
        start = code.let("start", start)
        keys = tirx.max(stop - start, const(0))
        if not self.team:
            code.add(loop("key", keys, lambda key: at_key(start + key)))
        else:
            code.add(shared_out(keys, lambda key: at_key(start + key)))
            code.add(_set(score, agreed(tirx.Max, peak[0])), _set(power, tirx.exp(peak[0] - score[0])), *weaker())
            code.add(_set(total, agreed(tirx.Add, total[0])))
            code.add(*self._each(problem.width, lambda w: _set(sums, agreed(tirx.Add, sums[w]), w)))
        code.add(_set(power, problem.share(lead, row, total[0])))
        stores = self._each(problem.width, lambda w: problem.store(lead, row, w, sums[w], power[0]))
        code.add(once(sequence(stores)) if self.team else sequence(stores))
        return code.statement()

    def _product(self, queries: Buffer, key: Expr, code: Code) -> Expr:
        """The product of the query with a key."""
        count, lanes = self._vectors(self.problem.depth)
        sums = local("products", lanes, DTYPE)
        code.add(tirx.AllocBuffer(sums))
        for index in range(count):

            def add(lane: Expr, index: int = index) -> tirx.Stmt:
                place = const(index * lanes) + lane
                product = queries[place] * self.problem.key(self.lead, key, place)
                return _set(sums, product if index == 0 else sums[lane] + product, lane)

            code.add(vectorized(lanes, add))
        total: Expr = sums[const(0)]
        for lane in range(1, lanes):
            total = total + sums[const(lane)]
        return total

    def _vectors(self, size: int) -> tuple[int, int]:
        """The number of vectors that make up a head, and their length."""
        lanes = self.lanes if size % self.lanes == 0 else 1
        return size // lanes, lanes

    def _each(self, size: int, body: Callable[[Expr], tirx.Stmt]) -> list[tirx.Stmt]:
        """`body(place)` for all places of a head, unrolled in vectors."""
        count, lanes = self._vectors(size)

        def vector(index: int) -> tirx.Stmt:
            return vectorized(lanes, lambda lane: body(const(index * lanes) + lane))

        return [vector(index) for index in range(count)]


def _set(cell: Buffer, value: Expr, index: Expr | None = None) -> tirx.Stmt:
    return tirx.BufferStore(cell, value, [const(0) if index is None else index])
