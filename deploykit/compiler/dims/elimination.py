"""Upper bounds, in terms of dims, of expressions over data dims: the capacities of tensors sized by data.

If the expression is monotone in a data dim, the data dim is replaced by its maximum where the expression grows, and by
its minimum where it falls. An expression that is not monotone is bounded term by term. A conditional is bounded by the
larger of its branches, unless its condition is known without data dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, TypeAlias

from tvm import tirx

from deploykit.compiler.dims.bounds import Bounds, Box, Range, interval
from deploykit.compiler.dims.conversion import expression, polynomial
from deploykit.compiler.dims.polynomial import ONE, ZERO, Atom, Monomial, Polynomial, apply, without

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Ends: TypeAlias = tuple[Polynomial | None, Polynomial | None]
"""A lower bound and an upper bound; None where none was found."""


def symbolic_upper_bound(
    expr: IntExpr,
    data: Mapping[tirx.Var, tuple[IntExpr | None, IntExpr | None]],
    dims: Box | None = None,
) -> IntExpr | None:
    """An expression without the variables of `data` that `expr` never exceeds, or None if none was found.

    `data` gives the least and greatest value of each variable to remove, as expressions over dims and over variables
    that come earlier in `data`. `dims` may give the ranges of dims; without it, a dim is at least 0.
    """
    p = polynomial(expr)
    ends = {var: tuple(None if end is None else polynomial(end) for end in pair) for var, pair in data.items()}
    box: dict[tirx.Var, Range] = {
        var: (0, None)
        for end in (p, *(end for pair in ends.values() for end in pair if end is not None))
        for var in end.variables
    }
    box |= dict(dims or {})
    for var, (low, high) in ends.items():
        box[var] = (_end(low, box, 0), _end(high, box, 1))
    bounds = Bounds(box)
    for var, (low, high) in reversed(ends.items()):
        bound = _Removal(var, low, high, bounds).above(p)
        if bound is None:
            return None
        p = bound
    return expression(p)


def _end(p: Polynomial | None, box: Box, side: int) -> int | None:
    """The least (`side` 0) or greatest (1) value of `p`."""
    return None if p is None else interval(expression(p), box)[side]


@dataclass(frozen=True)
class _Removal:
    """Removes `var`, which lies in `low..high`, from expressions, by bounds that hold for all its values."""

    var: tirx.Var
    low: Polynomial | None
    high: Polynomial | None
    bounds: Bounds

    def above(self, p: Polynomial) -> Polynomial | None:
        if self.var not in p.variables:
            return p
        p = self._joined(p)
        direction = self._direction(p)
        end = {1: self.high, -1: self.low}.get(direction or 0)
        if end is not None:
            return self._substituted(p, end)
        total = ZERO
        for monomial, coefficient in p.terms.items():
            bound = self._product_ends(monomial)[coefficient > 0]
            if bound is None:
                return None
            total += bound.scaled(coefficient)
        return total

    def below(self, p: Polynomial) -> Polynomial | None:
        bound = self.above(p.scaled(-1))
        return None if bound is None else bound.scaled(-1)

    def _joined(self, p: Polynomial) -> Polynomial:
        """A polynomial that is at least `p`: products `n * floor(q / n)` are replaced by `q`."""
        total = ZERO
        for monomial, coefficient in p.terms.items():
            product = self._whole(monomial) if coefficient > 0 else Polynomial({monomial: 1})
            total += product.scaled(coefficient)
        return total

    def _whole(self, monomial: Monomial) -> Polynomial:
        for atom in monomial:
            if atom.operator != "floordiv" or not self._varies(atom):
                continue
            numerator, divisor = atom.operands
            rest = without(monomial, atom)
            shares = next(iter(divisor.terms))
            if divisor.terms != {shares: 1} or any(shares.count(share) > rest.count(share) for share in shares):
                continue
            rest = reduce(without, shares, rest)
            others = [Polynomial({(other,): 1}) for other in rest]
            if self.bounds.least(divisor) >= 1 and all(self.bounds.least(q) >= 0 for q in (numerator, *others)):
                return Polynomial({rest: 1}) * numerator
        return Polynomial({monomial: 1})

    def _direction(self, p: Polynomial) -> int | None:
        """1 if `p` never falls as `var` grows, -1 if it never grows, None if neither is proved.

        Up to degree 2, the sign of the derivative at integers is the sign of the difference between neighbours."""
        signs = set()
        for atom in p.atoms:
            if not self._varies(atom):
                continue
            inner = self._atom_direction(atom)
            low, high = self.bounds.free_reach(_derivative(p, atom))
            if inner is None or low < 0 < high or max(monomial.count(atom) for monomial in p.terms) > 2:
                return None
            signs.add(inner if low >= 0 else -inner)
        return signs.pop() if len(signs) == 1 else None

    def _atom_direction(self, atom: Atom) -> int | None:
        if atom.var is not None:
            return 1
        if atom.operator in ("floordiv", "truncdiv") and self.var not in atom.operands[1].variables:
            if self.bounds.least(atom.operands[1]) < 1:
                return None
            return self._direction(atom.operands[0])
        if atom.operator in ("max", "min"):
            signs = {self._direction(p) for p in atom.operands if self.var in p.variables}
            return signs.pop() if len(signs) == 1 else None
        return None

    def _varies(self, atom: Atom) -> bool:
        return self.var in Polynomial({(atom,): 1}).variables

    def _substituted(self, p: Polynomial, value: Polynomial) -> Polynomial:
        total = ZERO
        for monomial, coefficient in p.terms.items():
            product = reduce(mul, (self._substituted_atom(atom, value) for atom in monomial), ONE)
            total += product.scaled(coefficient)
        return total

    def _substituted_atom(self, atom: Atom, value: Polynomial) -> Polynomial:
        if atom.var is not None and atom.var.same_as(self.var):
            return value
        if not self._varies(atom):
            return Polynomial({(atom,): 1})
        return apply(atom.operator, (self._substituted(p, value) for p in atom.operands))

    def _product_ends(self, monomial: Monomial) -> Ends:
        fixed = Polynomial({tuple(atom for atom in monomial if not self._varies(atom)): 1})
        varying = [atom for atom in monomial if self._varies(atom)]
        low, high = self.bounds.reach(fixed)
        if low < 0 < high:
            return None, None
        ends: Ends = (ONE, ONE)
        if len(varying) == 1:
            ends = self._atom_ends(varying[0])
        elif varying:
            if any(self.bounds.least(Polynomial({(atom,): 1})) < 0 for atom in varying):
                return None, None
            parts = [self._atom_ends(atom) for atom in varying]
            ends = _product([low for low, _ in parts]), _product([high for _, high in parts])
        if low < 0:
            ends = ends[1], ends[0]
        return _scaled(ends[0], fixed), _scaled(ends[1], fixed)

    def _atom_ends(self, atom: Atom) -> Ends:
        if atom.var is not None:
            return self.low, self.high
        if atom.operator == "opaque":
            return None, None
        if atom.operator in ("eq", "ne", "lt", "le", "and", "or", "not"):
            return ZERO, ONE
        lows = [self.below(p) for p in atom.operands]
        highs = [self.above(p) for p in atom.operands]
        if atom.operator == "select":
            return self._select_ends(atom.operands[0], lows, highs)
        if atom.operator == "max":
            return _extremum("max", [p for p in lows if p is not None]), _extremum("max", highs)
        if atom.operator == "min":
            return _extremum("min", lows), _extremum("min", [p for p in highs if p is not None])
        return self._division_ends(atom, lows, highs)

    def _select_ends(
        self, condition: Polynomial, lows: Sequence[Polynomial | None], highs: Sequence[Polynomial | None]
    ) -> Ends:
        if self.var in condition.variables:
            return _extremum("min", lows[1:]), _extremum("max", highs[1:])
        return _applied("select", condition, *lows[1:]), _applied("select", condition, *highs[1:])

    def _division_ends(self, atom: Atom, lows: Sequence[Polynomial | None], highs: Sequence[Polynomial | None]) -> Ends:
        positive = self.bounds.least(atom.operands[0]) >= 0
        if self.bounds.least(atom.operands[1]) < 1 or (atom.operator.startswith("trunc") and not positive):
            return None, None
        if atom.operator.endswith("mod"):
            return ZERO, _scaled(highs[1], ONE, -1)
        if self.var not in atom.operands[1].variables:
            return _applied(atom.operator, lows[0], lows[1]), _applied(atom.operator, highs[0], highs[1])
        if not positive or lows[1] is None or self.bounds.least(lows[1]) < 1:
            return (ZERO if positive else None), None
        return ZERO, _applied(atom.operator, highs[0], lows[1])


def _derivative(p: Polynomial, atom: Atom) -> Polynomial:
    total = ZERO
    for monomial, coefficient in p.terms.items():
        power = monomial.count(atom)
        if power:
            total += Polynomial({without(monomial, atom): coefficient * power})
    return total


def _applied(operator: str, *operands: Polynomial | None) -> Polynomial | None:
    known = [p for p in operands if p is not None]
    return apply(operator, known) if len(known) == len(operands) else None


def _extremum(operator: str, operands: Sequence[Polynomial | None]) -> Polynomial | None:
    return _applied(operator, *operands) if operands else None


def _scaled(p: Polynomial | None, factor: Polynomial, offset: int = 0) -> Polynomial | None:
    return None if p is None else p * factor + Polynomial.constant(offset)


def _product(parts: Sequence[Polynomial | None]) -> Polynomial | None:
    known = [p for p in parts if p is not None]
    return reduce(mul, known, ONE) if len(known) == len(parts) else None
