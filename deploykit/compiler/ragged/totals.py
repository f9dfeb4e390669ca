"""Numbers of elements as expressions over the dims of a model.

The number of elements of a ragged tensor depends on the last entries of arrays of sums. Such an entry is a dim of the
interface if an input has as many elements, for example `tokens`. Else it is a data dim, which the run reads from the
array; `bound` gives its maximum, so that memory can be planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm import ir, tirx

from deploykit.compiler.dims import largest, simplify
from deploykit.compiler.dims.conversion import as_expr, expression
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dims.polynomial import Atom, Monomial, Polynomial
from deploykit.compiler.ragged.storage import Layout, Storage, Sums
from deploykit.compiler.tir.rewriting import collect, replace_loads
from deploykit.ragged.bounds import greatest

LIMIT = 1 << 48
"""A sum of lengths that no tensor has."""


@dataclass
class Totals:
    """What is known of the last entries of arrays of sums."""

    storage: Storage
    known: dict[Sums, IntExpr] = field(default_factory=dict)

    def unknown(self, layout: Layout) -> list[Sums]:
        """The arrays whose last entries give the number of elements of a tensor, and are not known yet."""
        return [array for array in self._used(layout.total.expr()) if array not in self.known]

    def elements(self, layout: Layout) -> IntExpr:
        """The number of elements of a tensor."""
        values = {array.buffer: as_expr(value) for array, value in self.known.items()}
        return simplify(replace_loads(layout.total.expr(), lambda load: values[load.source]))

    def bound(self, array: Sums) -> IntExpr | None:
        """The most that the last entry of an array can be; None if it has no bound."""
        total: IntExpr = 0
        for monomial, factor in array.element.terms.items():
            if factor < 0:
                continue
            most = self._bound(array.domain, monomial)
            if most is None:
                each = largest_element(self.storage, array)
                return None if each is None else simplify(self.elements(array.domain) * each)
            total = total + most * factor
        return simplify(total)

    def _bound(self, domain: Layout, monomial: Monomial) -> IntExpr | None:
        """The most that the sum of a product over a domain can be. One factor counts with its sum, if that is known."""
        sums = [(place, self._sum_of(domain, atom)) for place, atom in enumerate(monomial)]
        carrier, total = next(((place, sum_) for place, sum_ in sums if sum_ is not None), (-1, None))
        total = self.elements(domain) if total is None else total
        for place, atom in enumerate(monomial):
            if place != carrier:
                most = self._most(domain, atom)
                if most is None:
                    return None
                total = total * most
        return total

    def described(self, array: Sums) -> str:
        """What the last entry of an array is, for messages."""
        buffers = {buffer: lengths for lengths, buffer in self.storage.lengths.items()}
        names = {buffers[load.source].name for load in self._loads(array) if load.source in buffers}
        listed = " and ".join(f"'{name}'" for name in sorted(names))
        return f"the sum of {listed}" if len(array.element.atoms) == 1 else f"the number of elements that {listed} give"

    def _loads(self, array: Sums) -> list[ir.TensorLoad]:
        return collect(as_expr(expression(array.element)), ir.TensorLoad)

    def _used(self, expr: ir.Expr) -> list[Sums]:
        sources = {load.source for load in collect(expr, ir.TensorLoad)}
        return [array for array in self.storage.arrays if array.buffer in sources]

    def _sum_of(self, domain: Layout, atom: Atom) -> IntExpr | None:
        """The sum of `atom` over a domain, if it is known."""
        for array, value in self.known.items():
            if array.domain is domain and array.element == Polynomial({(atom,): 1}):
                return value
        return None

    def _most(self, domain: Layout, atom: Atom) -> IntExpr | None:
        """The most that an atom can be at an index of a domain."""
        for array, value in self.known.items():
            if isinstance(atom.opaque, ir.TensorLoad) and atom.opaque.source.same_as(array.buffer):
                return value
        if atom.var is not None and any(atom.var.same_as(size) for size in self.storage.sizes.values()):
            return atom.var
        total = self._sum_of(domain, atom)
        return _largest(self.storage, domain, Polynomial({(atom,): 1})) if total is None else total


def largest_element(storage: Storage, array: Sums, unbounded: int | None = None) -> int | None:
    """The most that an element of an array of sums, and any intermediate value, can be. `unbounded` is assumed of
    lengths and sizes without a maximum; None if there are some."""
    return _largest(storage, array.domain, array.element, unbounded)


def _largest(storage: Storage, domain: Layout, value: Polynomial, unbounded: int | None = None) -> int | None:
    """The most that a value can be at an index of a domain."""
    box: dict[tirx.Var, tuple[int, int | None]] = {}
    entries = {buffer: lengths.maximum for lengths, buffer in storage.lengths.items()}

    def ends(most: int | None) -> tuple[int, int | None]:
        return (0, unbounded if most is None else most)

    def bounded(load: ir.TensorLoad) -> tirx.Var:
        var = tirx.Var("entry", "int64")
        box[var] = ends(entries[load.source]) if load.source in entries else (0, LIMIT)
        return var

    for dim, var in zip(domain.dims, domain.variables, strict=True):
        box[var] = ends(greatest(dim.extent))
    for size, var in storage.sizes.items():
        box[var] = ends(size.maximum)
    return largest(replace_loads(as_expr(expression(value)), bounded), box)


def product(extents: Sequence[IntExpr]) -> IntExpr:
    total: IntExpr = 1
    for extent in extents:
        total = total * extent
    return simplify(total) if isinstance(total, tirx.expr.ExprOp | ir.Expr) else total
