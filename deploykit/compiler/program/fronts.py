"""Maxima of polynomials over a box of dims, kept short.

A front is a set of polynomials without those that are proved to be nowhere greater than another one. So the maximum of
the front is the maximum of all polynomials that went in. A front that is too long is shortened by merging: one term
that bounds both replaces two terms. Each of its coefficients is the greater of the two for that monomial. The pair is
chosen that raises the maximum least, first at the upper bounds, then at the other points.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx

from deploykit.compiler.dims import evaluate
from deploykit.compiler.dims.bounds import Bounds, Box
from deploykit.compiler.dims.conversion import expression
from deploykit.compiler.dims.polynomial import Monomial, Polynomial


@dataclass(frozen=True)
class Term:
    """A polynomial and its values at the points of the `Fronts` that made it."""

    polynomial: Polynomial
    values: tuple[int, ...]

    def __add__(self, other: Term) -> Term:
        values = tuple(a + b for a, b in zip(self.values, other.values, strict=True))
        return Term(self.polynomial + other.polynomial, values)


class Fronts:
    """Fronts over `box`. Before anything is proved, terms are compared at `points`, the first of which is the upper
    bounds."""

    def __init__(self, box: Box, points: Sequence[Mapping[tirx.Var, int]], most: int) -> None:
        self.bounds = Bounds(box)
        self.points = tuple(points)
        self.most = most
        self._values: dict[Monomial, tuple[int, ...]] = {}

    def term(self, p: Polynomial) -> Term:
        values = [0] * len(self.points)
        for monomial, coefficient in p.terms.items():
            for i, value in enumerate(self._monomial_values(monomial)):
                values[i] += coefficient * value
        return Term(p, tuple(values))

    def _monomial_values(self, monomial: Monomial) -> tuple[int, ...]:
        if monomial not in self._values:
            factor = expression(Polynomial({monomial: 1}))
            self._values[monomial] = tuple(evaluate(factor, point) for point in self.points)
        return self._values[monomial]

    def front(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        """The terms that can be the maximum, the greatest at the upper bounds first."""
        kept: list[Term] = []
        for term in _greatest_first({term.polynomial: term for term in terms}.values()):
            if not any(self._dominates(other, term) for other in kept):
                kept.append(term)
        while len(kept) > self.most:
            merged = self._cheapest_merge(kept)
            if merged is None:
                break
            kept = _greatest_first([merged, *(term for term in kept if not self._dominates(merged, term))])
        return tuple(kept)

    def _dominates(self, great: Term, small: Term) -> bool:
        if any(a < b for a, b in zip(great.values, small.values, strict=True)):
            return False
        return self.bounds.nonnegative(great.polynomial - small.polynomial)

    def _cheapest_merge(self, terms: Sequence[Term]) -> Term | None:
        """The merger of two `terms` that raises their maximum least; None when a monomial may be negative."""
        if any(self.bounds.least(Polynomial({m: 1})) < 0 for term in terms for m in term.polynomial.terms):
            return None
        maximum = [max(values) for values in zip(*(term.values for term in terms), strict=True)]

        def rise(term: Term) -> tuple[int, ...]:
            risen = [max(value - level, 0) for value, level in zip(term.values, maximum, strict=True)]
            return (risen[0], sum(risen), *term.values)

        return min((self.term(_bound(a, b)) for a, b in itertools.combinations(terms, 2)), key=rise)


def _bound(a: Term, b: Term) -> Polynomial:
    """A polynomial that is at least `a` and at least `b`, if no monomial is negative."""
    x, y = a.polynomial.terms, b.polynomial.terms
    greater = {m: max(x.get(m, 0), y.get(m, 0)) for m in dict.fromkeys((*x, *y))}
    return Polynomial({m: coefficient for m, coefficient in greater.items() if coefficient})


def _greatest_first(terms: Iterable[Term]) -> list[Term]:
    return sorted(terms, key=lambda term: (term.values, term.polynomial.key), reverse=True)
