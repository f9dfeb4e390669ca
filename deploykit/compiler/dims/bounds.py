"""The range of an expression, given the ranges of its variables.

Ranges are sound, but not always tight. Terms that share variables are bounded together, in two ways. One uses the
coefficients of the polynomial in the Bernstein basis over the box of its atoms: on the box, a polynomial is not below
its least Bernstein coefficient. Along an atom without a maximum, powers of the distance from its minimum are used
instead. The other way replaces `floor(p / c)` by the lines that enclose it. So `n*m - n - m + 1` and `n - n // 2` have
tight ranges.

Source: G. T. Cargo and O. Shisha, "The Bernstein form of a polynomial", J. Res. NBS 70B (1966).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from tvm import tirx

from deploykit.compiler.dims.conversion import polynomial
from deploykit.compiler.dims.polynomial import Atom, Monomial, Polynomial, without

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Range: TypeAlias = tuple[int | None, int | None]
Box: TypeAlias = Mapping[tirx.Var, Range]
"""The least and greatest value of each variable; None for no bound. A variable that is absent has no bounds."""

Extended: TypeAlias = "int | Fraction | float"
"""A number or an infinity. Infinities are the only floats."""
Reach: TypeAlias = tuple[Extended, Extended]

_INFINITY = math.inf
_LARGEST_TENSOR = 64
"""The most coefficients for which the Bernstein form is worth its time."""
_MOST_ENCLOSURES = 3
"""How many times quotients are replaced by lines, each time also those within the numerators."""


def interval(expr: IntExpr, box: Box) -> Range:
    """The least and greatest value of `expr` over `box`; None where there is no bound or none was found."""
    low, high = Bounds(box).reach(polynomial(expr))
    return (
        None if low == -_INFINITY else math.ceil(low),
        None if high == _INFINITY else math.floor(high),
    )


class Bounds:
    """Ranges of polynomials over one box. Results are cached."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._least: dict[Polynomial, Extended] = {}
        self._atoms: dict[Atom, Reach] = {}

    def nonnegative(self, p: Polynomial) -> bool:
        """Whether `p >= 0` is proved."""
        return self.least(p) > -1

    def reach(self, p: Polynomial) -> Reach:
        """The bounds of `p`."""
        return self.least(p), -self.least(p.scaled(-1))

    def free_reach(self, p: Polynomial) -> Reach:
        """Bounds of `p` that also hold when each atom moves through its range independently of the others."""
        return self._least_of_free(p), -self._least_of_free(p.scaled(-1))

    def least(self, p: Polynomial) -> Extended:
        if p not in self._least:
            self._least[p] = self._find_least(p)
        return self._least[p]

    def _find_least(self, p: Polynomial) -> Extended:
        best = self._least_of_free(p)
        if best >= 0 and self._is_attained(p):
            return best
        scale = 1
        for _ in range(_MOST_ENCLOSURES):
            enclosure = self._without_quotients(p)
            if enclosure is None:
                break
            p, scale = enclosure[0], scale * enclosure[1]
            best = max(best, Fraction(1, scale) * self._least_of_free(p))
        return best

    def _least_of_free(self, p: Polynomial) -> Extended:
        best = self._sum_of_least_terms(p)
        return best if self._is_attained(p) else max(best, self._least_bernstein(p))

    def _is_attained(self, p: Polynomial) -> bool:
        """Whether all terms take their least values at the same point: no term falls, and no atom is negative."""
        return all(x >= 0 for m, x in p.terms.items() if m) and all(self.atom(atom)[0] >= 0 for atom in p.atoms)

    def _sum_of_least_terms(self, p: Polynomial) -> Extended:
        total: Extended = 0
        for monomial, coefficient in p.terms.items():
            term: Reach = (coefficient, coefficient)
            for atom in monomial:
                term = _product(term, self.atom(atom))
            total += term[0]
        return total

    def _least_bernstein(self, p: Polynomial) -> Extended:
        degrees = [max(monomial.count(atom) for monomial in p.terms) for atom in p.atoms]
        reaches = [self.atom(atom) for atom in p.atoms]
        if math.prod(d + 1 for d in degrees) > _LARGEST_TENSOR or any(low == -_INFINITY for low, _ in reaches):
            return -_INFINITY
        tensor = {tuple(monomial.count(atom) for atom in p.atoms): x for monomial, x in p.terms.items()}
        scale = 1
        for axis, (degree, (low, high)) in enumerate(zip(degrees, reaches, strict=True)):
            tensor, factor = _rebased(tensor, axis, degree, int(low), None if high == _INFINITY else int(high))
            scale *= factor
        growing = [axis for axis, (_, high) in enumerate(reaches) if high == _INFINITY]
        if any(x < 0 and any(index[axis] for axis in growing) for index, x in tensor.items()):
            return -_INFINITY
        return Fraction(min(x for index, x in tensor.items() if not any(index[axis] for axis in growing)), scale)

    def _without_quotients(self, p: Polynomial) -> tuple[Polynomial, int] | None:
        """Replace the quotient of each term that has one by a line, `(n - d + 1) / d <= floor(n / d) <= n / d`. Returns
        `(q, c)` with `q <= c*p`, or None when no term has a quotient."""
        chosen = {monomial: self._quotient_of(monomial) for monomial in p.terms}
        scale = math.lcm(*(atom.operands[1].value() or 1 for atom in chosen.values() if atom is not None))
        if not any(chosen.values()):
            return None
        total = Polynomial.constant(0)
        for monomial, coefficient in p.terms.items():
            atom = chosen[monomial]
            if atom is None:
                total += Polynomial({monomial: coefficient * scale})
                continue
            numerator, divisor = atom.operands[0], atom.operands[1].value() or 1
            line = numerator - Polynomial.constant(divisor - 1) if coefficient > 0 else numerator
            total += Polynomial({without(monomial, atom): coefficient * scale // divisor}) * line
        return total, scale

    def _quotient_of(self, monomial: Monomial) -> Atom | None:
        """A quotient by a positive constant whose other factors in the product are not negative."""
        for atom in monomial:
            if atom.operator == "floordiv" and (atom.operands[1].value() or 0) > 0:
                others = without(monomial, atom)
                return atom if all(self.atom(other)[0] >= 0 for other in others) else None
        return None

    def atom(self, atom: Atom) -> Reach:
        """The bounds of an atom: integers, or infinities."""
        if atom not in self._atoms:
            low, high = self._find_atom(atom)
            self._atoms[atom] = (
                low if low == -_INFINITY else math.ceil(low),
                high if high == _INFINITY else math.floor(high),
            )
        return self._atoms[atom]

    def _find_atom(self, atom: Atom) -> Reach:
        if atom.var is not None:
            low, high = self.box.get(atom.var, (None, None))
            return -_INFINITY if low is None else low, _INFINITY if high is None else high
        if atom.operator == "opaque":
            return -_INFINITY, _INFINITY
        if atom.operator in ("eq", "ne", "lt", "le"):
            return _comparison_reach(atom.operator, self.reach(atom.operands[1] - atom.operands[0]))
        reaches = [self.reach(p) for p in atom.operands]
        if atom.operator == "select":
            return _select_reach(*reaches)
        if atom.operator == "max":
            return max(low for low, _ in reaches), max(high for _, high in reaches)
        if atom.operator == "min":
            return min(low for low, _ in reaches), min(high for _, high in reaches)
        if atom.operator in ("and", "or", "not"):
            return _logical_reach(atom.operator, reaches)
        return _division_reach(atom.operator, *reaches)


def _times(x: Extended, y: Extended) -> Extended:
    return 0 if x == 0 or y == 0 else x * y


def _product(a: Reach, b: Reach) -> Reach:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


Tensor: TypeAlias = dict[tuple[int, ...], int]


def _rebased(tensor: Tensor, axis: int, degree: int, low: int, high: int | None) -> tuple[Tensor, int]:
    """Change the basis along `axis`: from coefficients of powers to coefficients of powers of the distance from `low`,
    or, with `high`, to Bernstein coefficients over `low..high`. The coefficients are multiplied by the second value
    returned."""
    lines: dict[tuple[int, ...], list[int]] = {}
    for index, x in tensor.items():
        lines.setdefault((*index[:axis], *index[axis + 1 :]), [0] * (degree + 1))[index[axis]] = x
    scale = 1 if high is None else math.lcm(*(math.comb(degree, k) for k in range(degree + 1)))
    result: Tensor = {}
    for index, line in lines.items():
        coefficients = _shifted(line, low)
        if high is not None:
            coefficients = _bernstein([x * (high - low) ** k * scale for k, x in enumerate(coefficients)])
        for k, x in enumerate(coefficients):
            result[(*index[:axis], k, *index[axis:])] = x
    return result, scale


def _shifted(powers: Sequence[int], low: int) -> list[int]:
    """The coefficients of powers of `x - low`, given those of powers of `x`."""
    degrees = range(len(powers))
    return [sum(math.comb(i, k) * low ** (i - k) * powers[i] for i in degrees[k:]) for k in degrees]


def _bernstein(powers: Sequence[int]) -> list[int]:
    """The Bernstein coefficients on 0..1, given those of powers, which must be multiples of the binomial
    coefficients."""
    degree = len(powers) - 1
    weights = [x // math.comb(degree, k) for k, x in enumerate(powers)]
    return [sum(math.comb(j, k) * weights[k] for k in range(j + 1)) for j in range(degree + 1)]


def _select_reach(condition: Reach, then: Reach, otherwise: Reach) -> Reach:
    if condition[0] > 0:
        return then
    if condition == (0, 0):
        return otherwise
    return min(then[0], otherwise[0]), max(then[1], otherwise[1])


def _comparison_reach(operator: str, difference: Reach) -> Reach:
    low, high = difference
    true, false = {
        "lt": (low > 0, high <= 0),
        "le": (low >= 0, high < 0),
        "eq": (low == high == 0, low > 0 or high < 0),
        "ne": (low > 0 or high < 0, low == high == 0),
    }[operator]
    return int(true), int(not false)


def _logical_reach(operator: str, operands: Iterable[Reach]) -> Reach:
    values = [(int(low > 0 or high < 0), int((low, high) != (0, 0))) for low, high in operands]
    if operator == "not":
        return 1 - values[0][1], 1 - values[0][0]
    pick = min if operator == "and" else max
    return pick(low for low, _ in values), pick(high for _, high in values)


def _division_reach(operator: str, p: Reach, q: Reach) -> Reach:
    """The bounds of quotients and remainders of both roundings, for positive divisors."""
    if q[0] < 1 or (operator.startswith("trunc") and p[0] < 0):
        return -_INFINITY, _INFINITY
    if operator.endswith("mod"):
        if p[0] >= 0 and p[1] < q[0]:
            return p
        return 0, min(q[1] - 1, p[1]) if p[0] >= 0 else q[1] - 1
    return (
        _floor_quotient(p[0], q[1] if p[0] >= 0 else q[0]),
        _floor_quotient(p[1], q[0] if p[1] >= 0 else q[1]),
    )


def _floor_quotient(x: Extended, y: Extended) -> Extended:
    if math.isinf(x):
        return x
    if y == _INFINITY:
        return 0 if x >= 0 else -1
    return x // y
