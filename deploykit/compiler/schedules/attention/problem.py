"""Attention as expressions: the elements of queries, keys and values, and what is computed from scores and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm import ir, sym, tirx

from deploykit.compiler.schedules.kernel.access import Views, analyse
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.guards import assume, guards_of, interval, last_axis
from deploykit.compiler.schedules.kernel.loops import index_of
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Expr, replace_loads, substitute
from deploykit.compiler.tir.values import as_index, const


@dataclass(frozen=True)
class AttentionProblem:
    """The stages `scores` and `weighted`, with the shares between them. An index consists of the lead coordinates (one
    head of one batch), a query row, a key, and a place in the head's vectors."""

    scores: Stage
    total: Stage
    weighted: Stage
    views: Views

    @property
    def lead(self) -> tuple[Axis, ...]:
        return self.weighted.axes[:-2]

    @property
    def rows(self) -> Axis:
        return self.scores.axes[-2]

    @property
    def keys(self) -> Axis:
        return self.scores.axes[-1]

    @property
    def depth(self) -> int:
        """The number of elements of a query or key vector."""
        return int(self.scores.reduce[0].extent)

    @property
    def width(self) -> int:
        """The number of elements of a value vector."""
        return int(self.weighted.axes[-1].extent)

    def query(self, lead: Sequence[Expr], row: Expr, place: Expr) -> Expr:
        return self._at(self._product.a, self.scores, (*lead, row, None), place)

    def key(self, lead: Sequence[Expr], key: Expr, place: Expr) -> Expr:
        return self._at(self._product.b, self.scores, (*lead, None, key), place)

    def value(self, lead: Sequence[Expr], key: Expr, place: Expr) -> Expr:
        return self._at(self._weighting.b, self.weighted, (*lead, None, place), key)

    def score(self, lead: Sequence[Expr], row: Expr, key: Expr, product: Expr) -> Expr:
        """The score computed from the product of a query with a key."""
        return self._scored(product, _values(self.scores.axes, (*lead, row, key))).value

    def share(self, lead: Sequence[Expr], row: Expr, total: Expr) -> Expr:
        """The factor of a row's sums, given the total of its powers."""
        return finish_of(self.total, self.views)(total, _values(self.total.axes, (*lead, row))).value

    def store(self, lead: Sequence[Expr], row: Expr, place: Expr, total: Expr, share: Expr) -> tirx.Stmt:
        """The store of one result, given its sum and the share of its row."""
        done = self._stored(total, _values(self.weighted.axes, (*lead, row, place)))
        shares = self.views.flat(self.total.outputs[0])
        value = replace_loads(done.value, lambda load: share if load.source.same_as(shares) else load)
        return tirx.BufferStore(done.buffer, value, done.indices)

    def strides(self, operand: str) -> tuple[bool, bool]:
        """Whether key (`keys`) or value (`values`) vectors are contiguous, and whether the elements at the same place
        of all vectors are."""
        if operand == "keys":
            value, vector, along = self._product.b, self.scores.reduce[0], self.keys
        else:
            value, vector, along = self._weighting.b, self.weighted.axes[-1], self.weighted.reduce[0]
        found = analyse([value], (vector, along))
        inner, outer = (all(access.contiguous(axis) for access in found) for axis in (0, 1))
        return inner, outer

    def plain(self, operand: str) -> bool:
        """Whether key or value elements are loaded without further computation."""
        return isinstance((self._product if operand == "keys" else self._weighting).b, ir.TensorLoad)

    def visited(self, lead: Sequence[Expr], first: Expr, last: Expr) -> tuple[Expr, Expr]:
        """The range of keys that may be open for any of the query rows `first` to `last`: its start and its end."""
        start: Expr = const(0)
        stop = as_index(self.keys.extent)
        final = self._scored.store.value
        for guard in guards_of(final, self.scores.axes):
            if last_axis(guard, self.scores.axes) < len(self.scores.axes) - 1:
                continue
            failed = assume(final, guard, False)
            bounds = interval(guard, self.keys)
            if bounds is None or not (isinstance(failed, tirx.FloatImm) and failed.value == float("-inf")):
                continue
            ends = [[substitute(b, _values(self.scores.axes[:-1], (*lead, r))) for r in (first, last)] for b in bounds]
            start, stop = tirx.max(start, tirx.min(*ends[0])), tirx.min(stop, tirx.max(*ends[1]))
        known = sym.Analyzer()
        return known.simplify(start), known.simplify(stop)

    @cached_property
    def _product(self) -> tirx.Mul:
        return _product_of(self.scores)

    @cached_property
    def _weighting(self) -> tirx.Mul:
        return _product_of(self.weighted)

    @cached_property
    def _scored(self) -> Finish:
        return finish_of(self.scores, self.views)

    @cached_property
    def _stored(self) -> Finish:
        return finish_of(self.weighted, self.views)

    def _at(self, value: Expr, stage: Stage, axes: Sequence[Expr | None], reduced: Expr) -> Expr:
        """`value`, with the axes of `stage` and its reduced axis replaced by these expressions."""
        at = _values(stage.axes, axes) | _values(stage.reduce, [reduced])
        return substitute(self.views.value(value), at)


def _product_of(stage: Stage) -> tirx.Mul:
    """What `stage` sums up."""
    assert stage.combine is not None
    assert isinstance(stage.combine.source, tirx.Mul)
    return stage.combine.source


def _values(axes: Sequence[Axis], places: Sequence[Expr | None]) -> dict[ir.Var, Expr]:
    return {axis.var: index_of(axis, place) for axis, place in zip(axes, places, strict=True) if place is not None}
