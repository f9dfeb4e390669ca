"""The normal form of integer expressions: polynomials with integer coefficients over atoms.

An atom is a variable, or an operation that is not polynomial (`floor(p / c)`, `max(p, q)`, a comparison, ...) whose
operands are again polynomials. Equal polynomials are equal expressions. The reverse holds for sums and products, and
for quotients by a constant, which are normalised as follows:

* `floor((c*p + r) / c)` becomes `p + floor(r / c)`, with the constant of `r` in `0..c-1`;
* common factors of divisor and coefficients cancel, and a quotient of a quotient becomes one quotient;
* a quotient of polynomials without a remainder becomes a polynomial. The divisor is taken not to be 0.

A remainder of `-n`, which is the padding of `n` to a multiple, becomes `floor((n + c - 1) / c) * c - n`.

So `(64*n + 63) // 64 * 64` is `64*n`, and `((n + 1) // 2 + 1) // 2` is `(n + 3) // 4`. A conditional on an
equation whose branches are equal where it holds, such as `-1 if n == 0 else n - 1`, becomes one of the branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TypeAlias

from tvm import ir, tirx

from deploykit.compiler.dims.evaluate import free_vars


@dataclass(frozen=True)
class Atom:
    """A factor: the variable `var`, the operation `operator` on `operands`, or the expression `opaque`, which is left
    as it is. Atoms are equal if their keys are equal, and are ordered by their keys."""

    key: str
    operator: str = field(compare=False)
    operands: tuple[Polynomial, ...] = field(compare=False, default=())
    var: tirx.Var | None = field(compare=False, default=None)
    opaque: ir.Expr | None = field(compare=False, default=None)


Monomial: TypeAlias = tuple[Atom, ...]
"""A product of atoms, ordered by key and repeated for powers. The empty product is 1."""


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of terms, each a coefficient times a monomial. No coefficient is 0."""

    terms: Mapping[Monomial, int]

    @staticmethod
    def constant(value: int) -> Polynomial:
        return Polynomial({(): value} if value else {})

    @staticmethod
    def variable(var: tirx.Var) -> Polynomial:
        return Polynomial({(Atom(f"{var.name}@{hash(var):x}", "var", var=var),): 1})

    @cached_property
    def key(self) -> str:
        return "+".join(
            f"{coefficient}*" + "*".join(atom.key for atom in monomial)
            for monomial, coefficient in sorted(self.terms.items(), key=lambda term: [atom.key for atom in term[0]])
        )

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms of the monomials, each once, ordered by key. Atoms within operands are not included."""
        return tuple(sorted({atom for monomial in self.terms for atom in monomial}, key=lambda atom: atom.key))

    @cached_property
    def variables(self) -> frozenset[tirx.Var]:
        """All variables, including those within operands."""
        found: set[tirx.Var] = set()
        for atom in self.atoms:
            if atom.var is not None:
                found.add(atom.var)
            elif atom.opaque is not None:
                found.update(free_vars(atom.opaque))
            for operand in atom.operands:
                found |= operand.variables
        return frozenset(found)

    def value(self) -> int | None:
        """The value if constant, else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Polynomial) -> Polynomial:
        small, large = sorted((self.terms, other.terms), key=len)
        terms = dict(large)
        for monomial, coefficient in small.items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return Polynomial(terms)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other.scaled(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                product = tuple(sorted(a + b, key=lambda atom: atom.key)) if a and b else a + b
                terms[product] = terms.get(product, 0) + x * y
        return Polynomial({monomial: x for monomial, x in terms.items() if x})

    def scaled(self, factor: int) -> Polynomial:
        return Polynomial({monomial: x * factor for monomial, x in self.terms.items()} if factor else {})


ZERO = Polynomial.constant(0)
ONE = Polynomial.constant(1)


def factors(p: Polynomial) -> tuple[int, tuple[Polynomial, ...]]:
    """`(content, parts)` with `p == content * product of parts`. There is one part if only a constant divides `p`.

    It finds common atoms, and factors `a*x + b` in one atom, as they occur in products of spatial extents.
    """
    parts: list[Polynomial] = []
    content, rest = _primitive(p)
    for atom in p.atoms if len(p.terms) > 1 else ():
        while True:
            quotient = Polynomial({without(m, atom): x for m, x in rest.terms.items() if atom in m})
            other = Polynomial({m: x for m, x in rest.terms.items() if atom not in m})
            if not quotient.terms or rest.terms == {(atom,): 1}:
                break
            a, common = _primitive(quotient)
            b, same = _primitive(other) if other.terms else (0, common)
            if common != same or (other.terms and common == ONE):
                break
            parts.append(Polynomial({(atom,): a} | ({(): b} if b else {})))
            rest = common
    return content, (*parts, rest) if rest != ONE or not parts else tuple(parts)


def without(monomial: Monomial, atom: Atom) -> Monomial:
    """The product with one `atom` fewer."""
    at = monomial.index(atom)
    return monomial[:at] + monomial[at + 1 :]


def _primitive(p: Polynomial) -> tuple[int, Polynomial]:
    """`(content, rest)` with `p == content * rest`. The coefficients of `rest` are coprime, the first one positive."""
    content = reduce(math.gcd, p.terms.values(), 0) or 1
    if p.terms and min(p.terms.items(), key=_reading_order)[1] < 0:
        content = -content
    return content, Polynomial({m: x // content for m, x in p.terms.items()})


def operation(operator: str, *arguments: Polynomial) -> Polynomial:
    """`operator` applied to `arguments` as an atom, without any simplification."""
    return Polynomial({(Atom(f"{operator}({','.join(a.key for a in arguments)})", operator, arguments),): 1})


def floordiv(p: Polynomial, q: Polynomial) -> Polynomial:
    divisor = q.value()
    if divisor is not None and divisor < 0:
        return floordiv(p.scaled(-1), q.scaled(-1))
    if not divisor:
        exact = _exact_quotient(p, q)
        return operation("floordiv", p, q) if exact is None else exact
    whole = Polynomial({m: x // divisor for m, x in p.terms.items() if x // divisor and (not m or not x % divisor)})
    rest = p - whole.scaled(divisor)
    if rest.value() is not None:
        return whole
    return whole + _proper_quotient(rest, divisor)


def _exact_quotient(p: Polynomial, q: Polynomial) -> Polynomial | None:
    """`p / q` if that is a polynomial: long division by the leading term, in the graded lexicographic order."""
    if q == ZERO:
        return None
    quotient = ZERO
    leading = min(q.terms, key=_graded)
    while p.terms:
        monomial = min(p.terms, key=_graded)
        factor, rest = divmod(p.terms[monomial], q.terms[leading])
        for atom in leading:
            if atom not in monomial:
                return None
            monomial = without(monomial, atom)
        if rest:
            return None
        term = Polynomial({monomial: factor})
        quotient, p = quotient + term, p - term * q
    return quotient


def _graded(monomial: Monomial) -> tuple[int, list[str]]:
    return -len(monomial), [atom.key for atom in monomial]


def _proper_quotient(rest: Polynomial, divisor: int) -> Polynomial:
    """`floor(rest / divisor)`, if no coefficient of `rest` is a multiple of `divisor` and its constant is in
    `0..divisor-1`."""
    constant = rest.terms.get((), 0)
    factor = reduce(math.gcd, (x for m, x in rest.terms.items() if m), divisor)
    if factor > 1:
        return floordiv(
            Polynomial({m: x // factor for m, x in rest.terms.items() if x // factor}),
            Polynomial.constant(divisor // factor),
        )
    variable = [m for m in rest.terms if m]
    if len(variable) == 1 and rest.terms[variable[0]] == 1 and len(variable[0]) == 1:
        atom = variable[0][0]
        inner = atom.operands[1].value() if atom.operator == "floordiv" else None
        if inner is not None and inner > 0:
            numerator = atom.operands[0] + Polynomial.constant(constant * inner)
            return floordiv(numerator, Polynomial.constant(inner * divisor))
    return operation("floordiv", rest, Polynomial.constant(divisor))


def floormod(p: Polynomial, q: Polynomial) -> Polynomial:
    divisor = q.value()
    if divisor is not None and divisor < 0:
        return floormod(p.scaled(-1), q.scaled(-1)).scaled(-1)
    if not divisor:
        return operation("floormod", p, q) if _exact_quotient(p, q) is None else ZERO
    rest = _congruent(p, divisor)
    if rest.value() is not None:
        return rest
    opposite = _congruent(p.scaled(-1), divisor)
    if _weight(opposite) < _weight(rest):
        return round_up(opposite, divisor) - opposite
    return operation("floormod", rest, q)


def _congruent(p: Polynomial, divisor: int) -> Polynomial:
    """A polynomial with the same remainder as `p`, with remainders in `p` resolved and coefficients in
    `0..divisor-1`."""
    total = ZERO
    for monomial, coefficient in p.terms.items():
        term = Polynomial({monomial: coefficient})
        if len(monomial) == 1 and monomial[0].operator == "floormod":
            numerator, modulus = monomial[0].operands
            if (modulus.value() or 1) % divisor == 0:
                term = numerator.scaled(coefficient)
        total += term
    return Polynomial({m: x % divisor for m, x in total.terms.items() if x % divisor})


def _weight(p: Polynomial) -> int:
    return sum(x for m, x in p.terms.items() if m)


def truncdiv(p: Polynomial, q: Polynomial) -> Polynomial:
    """The quotient rounded towards zero, in terms of the one rounded down if the divisor's sign is known."""
    divisor = q.value()
    if divisor is None:
        exact = _exact_quotient(p, q)
        return operation("truncdiv", p, q) if exact is None else exact
    if divisor <= 0:
        return operation("truncdiv", p, q)
    return select(compare("le", ZERO, p), floordiv(p, q), floordiv(p.scaled(-1), q).scaled(-1))


def extremum(operator: str, arguments: Iterable[Polynomial]) -> Polynomial:
    """The `max` or `min` of `arguments`. Nested ones are flattened; of arguments that differ by a constant, one is
    kept."""
    flat: dict[Polynomial, int] = {}
    pick = max if operator == "max" else min
    for argument in arguments:
        for part in _flatten(operator, argument):
            constant = part.terms.get((), 0)
            rest = part - Polynomial.constant(constant)
            flat[rest] = pick(flat.get(rest, constant), constant)
    parts = sorted((rest + Polynomial.constant(x) for rest, x in flat.items()), key=lambda part: part.key)
    return parts[0] if len(parts) == 1 else operation(operator, *parts)


def _flatten(operator: str, argument: Polynomial) -> tuple[Polynomial, ...]:
    if len(argument.terms) == 1:
        (monomial, coefficient), *_ = argument.terms.items()
        if coefficient == 1 and len(monomial) == 1 and monomial[0].operator == operator:
            return monomial[0].operands
    return (argument,)


def select(condition: Polynomial, then: Polynomial, otherwise: Polynomial) -> Polynomial:
    """`then` if `condition` is not 0, else `otherwise`. If they differ by a multiple of the difference that the
    condition compares with 0, they are equal where it is 0: `0 if n == 0 else 4*n` is `4*n`."""
    known = condition.value()
    if known is not None:
        return then if known else otherwise
    if then == otherwise:
        return then
    atom = condition.atoms[0]
    if condition.terms == {(atom,): 1} and atom.operator in ("eq", "ne"):
        compared = atom.operands[0] - atom.operands[1]
        if _is_multiple(then - otherwise, compared):
            return otherwise if atom.operator == "eq" else then
    return operation("select", condition, then, otherwise)


def _is_multiple(p: Polynomial, q: Polynomial) -> bool:
    """Whether `p` is `q` times a number."""
    monomial, coefficient = next(iter(q.terms.items()))
    times, rest = divmod(p.terms.get(monomial, 0), coefficient)
    return not rest and p == q.scaled(times)


def round_up(p: Polynomial, multiple: int) -> Polynomial:
    """The least multiple of `multiple` that is at least `p`."""
    return floordiv(p + Polynomial.constant(multiple - 1), Polynomial.constant(multiple)).scaled(multiple)


def compare(operator: str, a: Polynomial, b: Polynomial) -> Polynomial:
    difference = (a - b).value()
    if difference is None:
        return operation(operator, a, b)
    decided = {"eq": difference == 0, "ne": difference != 0, "lt": difference < 0, "le": difference <= 0}
    return ONE if decided[operator] else ZERO


def logical(operator: str, a: Polynomial, b: Polynomial) -> Polynomial:
    deciding = operator == "or"
    for this, other in ((a, b), (b, a)):
        known = this.value()
        if known is not None:
            return Polynomial.constant(int(deciding)) if bool(known) == deciding else other
    return a if a == b else operation(operator, a, b)


def negation(a: Polynomial) -> Polynomial:
    known = a.value()
    return operation("not", a) if known is None else Polynomial.constant(int(not known))


def apply(operator: str, operands: Iterable[Polynomial]) -> Polynomial:
    """`operator` applied to `operands`, in normal form. Operators without a rule become atoms."""
    arguments = tuple(operands)
    rule = _RULES.get(operator)
    return rule(*arguments) if rule else operation(operator, *arguments)


_RULES: dict[str, Callable[..., Polynomial]] = {
    "floordiv": floordiv,
    "floormod": floormod,
    "truncdiv": truncdiv,
    "max": lambda *parts: extremum("max", parts),
    "min": lambda *parts: extremum("min", parts),
    "select": select,
    "eq": lambda a, b: compare("eq", a, b),
    "ne": lambda a, b: compare("ne", a, b),
    "lt": lambda a, b: compare("lt", a, b),
    "le": lambda a, b: compare("le", a, b),
    "and": lambda a, b: logical("and", a, b),
    "or": lambda a, b: logical("or", a, b),
    "not": negation,
}


def ordered_terms(p: Polynomial) -> list[tuple[Monomial, int]]:
    """The terms in reading order: higher degree first, then by name, the constant last. A positive term leads, if there
    is one."""
    terms = sorted(p.terms.items(), key=_reading_order)
    lead = next((i for i, (_, x) in enumerate(terms) if x > 0), 0)
    return [terms[lead], *terms[:lead], *terms[lead + 1 :]] if terms else []


def _reading_order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    return -len(term[0]), [atom.key for atom in term[0]]
