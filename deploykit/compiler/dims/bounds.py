"""The range of an expression when its variables have ranges.

Ranges are sound, not always tight. Sums that share variables are bounded together: by the coefficients of the
polynomial in the Bernstein basis over the box of its atoms (a polynomial on a box lies between its least and greatest
Bernstein coefficient; shifted powers take their place where an atom has no maximum), and with `floor(p / c)` replaced
by the two lines that enclose it. So `n*m - n - m + 1` and `n - n // 2` have the ranges one expects.

Source: G. T. Cargo and O. Shisha, "The Bernstein form of a polynomial", J. Res. NBS 70B (1966).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from tvm import tirx

from deploykit.compiler.dims.conversion import polynomial
from deploykit.compiler.dims.polynomial import Atom, Polynomial

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import IntExpr

Range: TypeAlias = tuple[int | None, int | None]
Box: TypeAlias = Mapping[tirx.Var, Range]
"""Least and greatest value of each variable, None for no bound; a variable that is absent has no bounds."""

Extended: TypeAlias = "int | Fraction | float"
"""A number or an infinity (the only floats that occur)."""
Reach: TypeAlias = tuple[Extended, Extended]

_INFINITY = math.inf
_LARGEST_TENSOR = 256
"""Coefficients beyond which the Bernstein form is not worth its time."""


def interval(expr: IntExpr, box: Box) -> Range:
    """Least and greatest value of `expr` over `box`, None where there is no bound or none was found."""
    low, high = reach(polynomial(expr), box)
    return (
        None if low == -_INFINITY else math.ceil(low),
        None if high == _INFINITY else math.floor(high),
    )


def nonnegative(p: Polynomial, box: Box) -> bool:
    """Whether `p >= 0` is proved over `box`."""
    return reach(p, box)[0] > -1


def reach(p: Polynomial, box: Box, depth: int = 2) -> Reach:
    """Bounds of `p` over `box`; `depth` bounds how many enclosing lines replace quotients one within the other."""
    reaches = {atom: _atom_reach(atom, box) for atom in p.atoms}
    result = _sum_of_terms(p, reaches)
    if len(p.terms) == 1 or (len(p.atoms) <= 1 and max(map(len, p.terms), default=0) <= 1):
        return result
    if len(p.atoms) < sum(map(len, p.terms)):
        result = _both(result, _bernstein_reach(p, reaches))
    for atom in p.atoms if depth else ():
        if atom.operator == "floordiv":
            result = _both(result, _enclosed(p, atom, box, depth - 1))
    return result


def _both(a: Reach, b: Reach) -> Reach:
    return max(a[0], b[0]), min(a[1], b[1])


def _sum_of_terms(p: Polynomial, reaches: Mapping[Atom, Reach]) -> Reach:
    low: Extended = 0
    high: Extended = 0
    for monomial, coefficient in p.terms.items():
        term: Reach = (coefficient, coefficient)
        for atom in monomial:
            term = _product(term, reaches[atom])
        low, high = low + term[0], high + term[1]
    return low, high


def _times(x: Extended, y: Extended) -> Extended:
    return 0 if x == 0 or y == 0 else x * y


def _product(a: Reach, b: Reach) -> Reach:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _bernstein_reach(p: Polynomial, reaches: Mapping[Atom, Reach]) -> Reach:
    degrees = {atom: max(monomial.count(atom) for monomial in p.terms) for atom in p.atoms}
    if math.prod(d + 1 for d in degrees.values()) > _LARGEST_TENSOR:
        return -_INFINITY, _INFINITY
    if any(reaches[atom][0] == -_INFINITY for atom in p.atoms):
        return -_INFINITY, _INFINITY
    tensor: dict[tuple[int, ...], Extended] = {
        tuple(monomial.count(atom) for atom in p.atoms): coefficient for monomial, coefficient in p.terms.items()
    }
    powers: list[int] = []
    for axis, atom in enumerate(p.atoms):
        tensor = _rebased(tensor, axis, degrees[atom], reaches[atom])
        if reaches[atom][1] == _INFINITY:
            powers.append(axis)
    finite = [x for index, x in tensor.items() if not any(index[axis] for axis in powers)]
    growth = [x for index, x in tensor.items() if any(index[axis] for axis in powers)]
    return (
        min(finite) if all(x >= 0 for x in growth) else -_INFINITY,
        max(finite) if all(x <= 0 for x in growth) else _INFINITY,
    )


def _rebased(
    tensor: Mapping[tuple[int, ...], Extended], axis: int, degree: int, reach_of_axis: Reach
) -> dict[tuple[int, ...], Extended]:
    """Coefficients of powers along `axis` become Bernstein coefficients over a finite reach, coefficients of powers
    of the distance from the least value over an infinite one."""
    low, high = reach_of_axis
    lines: dict[tuple[int, ...], list[Extended]] = {}
    for index, x in tensor.items():
        lines.setdefault((*index[:axis], *index[axis + 1 :]), [0] * (degree + 1))[index[axis]] = x
    result: dict[tuple[int, ...], Extended] = {}
    for index, line in lines.items():
        coefficients = _shifted(line, low)
        if high != _INFINITY:
            coefficients = _bernstein([x * (high - low) ** k for k, x in enumerate(coefficients)])
        for k, x in enumerate(coefficients):
            result[(*index[:axis], k, *index[axis:])] = x
    return result


def _shifted(powers: Sequence[Extended], low: Extended) -> list[Extended]:
    """Coefficients of powers of `x - low` from those of powers of `x`."""
    degrees = range(len(powers))
    return [sum(math.comb(i, k) * low ** (i - k) * powers[i] for i in degrees[k:]) for k in degrees]


def _bernstein(powers: Sequence[Extended]) -> list[Extended]:
    """Bernstein coefficients on 0..1 from those of powers."""
    degree = len(powers) - 1
    weights = [Fraction(1, math.comb(degree, k)) * x for k, x in enumerate(powers)]
    return [sum(math.comb(j, k) * weights[k] for k in range(j + 1)) for j in range(degree + 1)]


def _enclosed(p: Polynomial, atom: Atom, box: Box, depth: int) -> Reach:
    """The reach of `p` found by `(numerator - divisor + 1) / divisor <= atom <= numerator / divisor`, for a constant
    divisor and an atom that occurs at most once in a term."""
    numerator, divisor = atom.operands[0], atom.operands[1].value()
    if divisor is None or divisor <= 0 or any(monomial.count(atom) > 1 for monomial in p.terms):
        return -_INFINITY, _INFINITY
    without = Polynomial({m: x for m, x in p.terms.items() if atom not in m}).scaled(divisor)
    slope = Polynomial({tuple(a for a in m if a != atom): x for m, x in p.terms.items() if atom in m})
    sign = reach(slope, box, depth)
    if sign[0] < 0 < sign[1]:
        return -_INFINITY, _INFINITY
    upper = without + slope * numerator
    lower = upper - slope.scaled(divisor - 1)
    if sign[1] <= 0:
        lower, upper = upper, lower
    return Fraction(1, divisor) * reach(lower, box, depth)[0], Fraction(1, divisor) * reach(upper, box, depth)[1]


def _atom_reach(atom: Atom, box: Box) -> Reach:
    if atom.var is not None:
        low, high = box.get(atom.var, (None, None))
        return -_INFINITY if low is None else low, _INFINITY if high is None else high
    if atom.operator == "opaque":
        return -_INFINITY, _INFINITY
    if atom.operator == "select":
        return _select_reach(atom.operands, box)
    if atom.operator in ("eq", "ne", "lt", "le"):
        return _comparison_reach(atom, box)
    operands = [_integers(reach(p, box)) for p in atom.operands]
    if atom.operator == "max":
        return max(low for low, _ in operands), max(high for _, high in operands)
    if atom.operator == "min":
        return min(low for low, _ in operands), min(high for _, high in operands)
    if atom.operator in ("and", "or", "not"):
        return _logical_reach(atom.operator, operands)
    return _division_reach(atom.operator, *operands)


def _integers(a: Reach) -> Reach:
    """The integers within `a`."""
    return (
        a[0] if a[0] == -_INFINITY else math.ceil(a[0]),
        a[1] if a[1] == _INFINITY else math.floor(a[1]),
    )


def _select_reach(operands: Sequence[Polynomial], box: Box) -> Reach:
    condition, then, otherwise = operands
    low, high = reach(condition, box)
    if low > 0:
        return reach(then, box)
    if (low, high) == (0, 0):
        return reach(otherwise, box)
    a, b = reach(then, box), reach(otherwise, box)
    return min(a[0], b[0]), max(a[1], b[1])


def _comparison_reach(atom: Atom, box: Box) -> Reach:
    low, high = reach(atom.operands[1] - atom.operands[0], box)
    true, false = {
        "lt": (low > 0, high <= 0),
        "le": (low >= 0, high < 0),
        "eq": (low == high == 0, low > 0 or high < 0),
        "ne": (low > 0 or high < 0, low == high == 0),
    }[atom.operator]
    return int(true), int(not false)


def _logical_reach(operator: str, operands: Iterable[Reach]) -> Reach:
    values = [(int(low > 0 or high < 0), int((low, high) != (0, 0))) for low, high in operands]
    if operator == "not":
        return 1 - values[0][1], 1 - values[0][0]
    pick = min if operator == "and" else max
    return pick(low for low, _ in values), pick(high for _, high in values)


def _division_reach(operator: str, p: Reach, q: Reach) -> Reach:
    """Quotient and remainder of both roundings, for positive divisors."""
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
