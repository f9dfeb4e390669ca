"""What is known about the dims of a model, used to shorten expressions and to prove conditions.

Variables have ranges. A condition that a run checks before it uses any result is assumed to hold. If it says that an
expression that grows with one variable is at least some number, the variable's range shrinks. For example,
`floor(n / 20) - 1 >= 0` makes `n` at least 20, so `max(0, n // 20 - 1)` becomes `n // 20 - 1`.

Small expressions are also given to TVM's analyzer, whose rules take time exponential in nested conditionals.
"""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

from tvm import ir, tirx
from tvm.sym import Analyzer

from deploykit.compiler.dims.bounds import Bounds, Range
from deploykit.compiler.dims.conversion import expression, is_small, polynomial, simplify
from deploykit.compiler.dims.evaluate import condition_and_branches, evaluate, operands
from deploykit.compiler.dims.polynomial import ONE, ZERO, Atom, Polynomial, apply

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

LARGEST = 2**40
"""The maximum that is assumed for a variable without a maximum, or with a larger one, where an extent must fit 64
bits."""


class Facts:
    """The ranges of variables, and what follows from them."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.box: dict[tirx.Var, Range] = {}
        self._before: list[tuple[tirx.Var, Range]] = []
        self._settled = Settled(Bounds(self.box))

    def bind(self, var: tirx.Var, minimum: int | None, maximum: int | None) -> None:
        """Set the range of a variable, or narrow it."""
        self.box[var] = (minimum, maximum)
        self._settled = Settled(Bounds(self.box))
        if minimum is not None:
            last = max(minimum, LARGEST if maximum is None else min(maximum, LARGEST))
            # TVM replaces a variable of one value by this value, which must have the variable's dtype.
            ends = (tirx.IntImm("int64", n) for n in (minimum, last - minimum + 1))
            self.analyzer.bind(var, ir.Range.from_min_extent(*ends), allow_override=True)

    def simplify(self, expr: IntExpr) -> IntExpr:
        """An expression that has the same value for all values within the ranges: an int if constant."""
        if isinstance(expr, int):
            return int(expr)
        if is_small(expr):
            expr = self.analyzer.simplify(expr)
            if isinstance(expr, tirx.IntImm):
                return int(expr.value)
            if not _has_cases(expr):
                return expr
        return simplify(expression(self._settled.polynomial(polynomial(expr)), boolean=_is_bool(expr)))

    def proves(self, condition: ir.Expr) -> bool:
        """Whether a condition holds for all values within the ranges."""
        if is_small(condition) and bool(self.analyzer.can_prove(condition)):
            return True
        return self._settled.bounds.least(self._settled.polynomial(polynomial(condition))) > 0

    def assume(self, condition: ir.Expr) -> None:
        """Assume that a condition holds from here on."""
        p = polynomial(condition)
        if len(p.atoms) != 1 or p.terms != {p.atoms: 1}:
            return
        (atom,) = p.atoms
        if atom.operator == "and":
            for operand in atom.operands:
                self.assume(expression(operand, boolean=True))
        elif atom.operator in ("le", "lt"):
            below, above = atom.operands
            self._assume_least(above - below, 1 if atom.operator == "lt" else 0)

    def _assume_least(self, p: Polynomial, least: int) -> None:
        """Assume `p >= least`."""
        if len(p.variables) != 1 or not _grows(p):
            return
        (var,) = p.variables
        low, high = self.box.get(var, (None, None))
        if low is None:
            return
        value = expression(p)
        last = LARGEST if high is None else high
        if evaluate(value, {var: last}) < least:
            return
        first, end = low, last
        while first < end:
            middle = (first + end) // 2
            if evaluate(value, {var: middle}) >= least:
                end = middle
            else:
                first = middle + 1
        if first > low:
            self._before.append((var, (low, high)))
            self.bind(var, first, high)

    def mark(self) -> int:
        """The current number of assumptions, for `forget_since`."""
        return len(self._before)

    def forget_since(self, mark: int) -> None:
        """Drop the assumptions made since `mark`."""
        while len(self._before) > mark:
            var, ends = self._before.pop()
            self.bind(var, *ends)


def _grows(p: Polynomial) -> bool:
    """Whether the form of `p` shows that it never falls as any of its variables grows."""
    return all(len(monomial) == 1 and x > 0 and _atom_grows(monomial[0]) for monomial, x in p.terms.items() if monomial)


def _atom_grows(atom: Atom) -> bool:
    if atom.operator == "floordiv":
        return (atom.operands[1].value() or 0) > 0 and _grows(atom.operands[0])
    return atom.var is not None or (atom.operator in ("max", "min") and all(map(_grows, atom.operands)))


def _has_cases(expr: IntExpr) -> bool:
    if condition_and_branches(expr) is not None or isinstance(expr, tirx.Max | tirx.Min | tirx.Div | tirx.Mod):
        return True
    return any(map(_has_cases, operands(expr)))


def _is_bool(expr: IntExpr) -> bool:
    return not isinstance(expr, int) and str(expr.ty) == "bool"


class Settled:
    """Normal forms in which all conditionals, maxima, minima and comparisons that the ranges decide are resolved.
    Results are cached."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._known: dict[Atom, Polynomial] = {}

    def polynomial(self, p: Polynomial) -> Polynomial:
        total = ZERO
        for monomial, coefficient in p.terms.items():
            total += reduce(mul, (self.atom(atom) for atom in monomial), ONE).scaled(coefficient)
        return total

    def atom(self, atom: Atom) -> Polynomial:
        if atom not in self._known:
            self._known[atom] = self._settled(atom)
        return self._known[atom]

    def _settled(self, atom: Atom) -> Polynomial:
        if not atom.operands:
            return Polynomial({(atom,): 1})
        if atom.operator == "select":
            condition = self.polynomial(atom.operands[0])
            low, high = self.bounds.reach(condition)
            if low > 0:
                return self.polynomial(atom.operands[1])
            if (low, high) == (0, 0):
                return self.polynomial(atom.operands[2])
            return apply("select", (condition, *map(self.polynomial, atom.operands[1:])))
        parts = [self.polynomial(operand) for operand in atom.operands]
        if atom.operator in ("max", "min"):
            parts = self._extreme(parts, 1 if atom.operator == "max" else -1)
        result = apply(atom.operator, parts)
        low, high = self.bounds.reach(result)
        return Polynomial.constant(int(low)) if low == high and low == int(low) else result

    def _extreme(self, parts: list[Polynomial], sign: int) -> list[Polynomial]:
        """The `parts` of a maximum (`sign` 1) or minimum (`sign` -1) without those that another part is proved to
        cover."""
        kept: list[Polynomial] = []
        for part in parts:
            if any(self.bounds.nonnegative((other - part).scaled(sign)) for other in kept):
                continue
            kept = [other for other in kept if not self.bounds.nonnegative((part - other).scaled(sign))]
            kept.append(part)
        return kept
