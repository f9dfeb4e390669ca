"""Formulas for people to read: `4*batch*seq + 1024`, `64*ceil(5*n/8)`, `max(batch, 2*seq)`, `n % 4`.

A formula means exact arithmetic. `/` occurs only under `floor(...)`, `ceil(...)` and `trunc(...)`. `%` is never
negative for a positive divisor. `a if c else b` is a conditional. A name that is not a plain word is quoted, as in
`4*"seq len"`. There are no casts and no types. The text is the shorter of a sum of products and a product of sums.
"""

from __future__ import annotations

import json
import keyword
import re
from typing import TYPE_CHECKING

from deploykit.compiler.dims.conversion import polynomial
from deploykit.compiler.dims.polynomial import Atom, Monomial, Polynomial, factors, ordered_terms

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


def to_text(expr: IntExpr) -> str:
    """`expr` as a formula over the names of its variables."""
    return polynomial_text(polynomial(expr))


def polynomial_text(p: Polynomial) -> str:
    """The shorter of the sum of products and the product of sums."""
    expanded = _sum(p)
    content, parts = factors(p)
    if len(parts) == 1 or len(p.terms) == 1:
        return expanded
    product = "*".join([*([] if content == 1 else [str(content)]), *(_operand(part) for part in parts)])
    return min(expanded, product, key=len)


def _sum(p: Polynomial) -> str:
    if len(p.terms) == 1:
        (monomial, coefficient), *_ = p.terms.items()
        if coefficient == 1 and len(monomial) == 1:
            return _atom(monomial[0])
    text = ""
    for monomial, coefficient in ordered_terms(p):
        term = _term(monomial, abs(coefficient))
        if text:
            text += f" {'+' if coefficient > 0 else '-'} {term}"
        else:
            text = term if coefficient > 0 else f"-{term}"
    return text or "0"


def _operand(p: Polynomial) -> str:
    """Text that can be a factor of a product or the first operand of `/` and `%`."""
    if len(p.terms) == 1 and min(p.terms.values()) > 0:
        return _term(*next(iter(p.terms.items())))
    return f"({polynomial_text(p)})"


def _divisor(p: Polynomial) -> str:
    """Text that can be the second operand of `/` and `%`."""
    single = p.value() is not None or (len(p.atoms) == 1 and p.terms == {p.atoms: 1})
    return _operand(p) if single else f"({polynomial_text(p)})"


def _term(monomial: Monomial, coefficient: int) -> str:
    factors = [_factor(atom) for atom in monomial]
    if coefficient != 1 or not factors:
        factors.insert(0, str(coefficient))
    return "*".join(factors)


_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
_MIRRORED = {"<": ">", "<=": ">="}
_FUNCTIONS = ("floor", "ceil", "trunc", "max", "min")
_LOOSE = (*_COMPARISONS, "and", "or", "not", "select")
"""Operators that bind less tightly than `+`."""


def _factor(atom: Atom) -> str:
    """Text that can be a factor of a product."""
    return f"({_atom(atom)})" if atom.operator in (*_LOOSE, "floormod") else _atom(atom)


def _atom(atom: Atom) -> str:
    operator, operands = atom.operator, atom.operands
    if atom.var is not None:
        return _name(str(atom.var.name))
    if operator == "opaque":
        return str(atom.opaque)
    if operator == "floordiv":
        return _quotient(*operands)
    if operator == "truncdiv":
        numerator, divisor = operands
        return f"trunc({_operand(numerator)}/{_divisor(divisor)})"
    if operator == "floormod":
        numerator, divisor = operands
        return f"{_operand(numerator)} % {_divisor(divisor)}"
    if operator == "select":
        condition, then, otherwise = operands
        return f"{_within(then, 'select')} if {_within(condition, 'select')} else {polynomial_text(otherwise)}"
    if operator in _COMPARISONS:
        return _comparison(_COMPARISONS[operator], *operands)
    if operator in ("and", "or"):
        return f" {operator} ".join(_within(p, "and", "or", "select") for p in operands)
    if operator == "not":
        return f"not {_within(operands[0], 'and', 'or', 'select')}"
    return f"{operator}({', '.join(polynomial_text(p) for p in operands)})"


def _name(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and not keyword.iskeyword(name) and name not in _FUNCTIONS
    return name if plain else json.dumps(name, ensure_ascii=False)


def _within(p: Polynomial, *loose: str) -> str:
    """The text of `p`, in parentheses if `p` is a single operation with one of the operators `loose`."""
    text = polynomial_text(p)
    return f"({text})" if len(p.atoms) == 1 and p.terms == {p.atoms: 1} and p.atoms[0].operator in loose else text


def _quotient(numerator: Polynomial, divisor: Polynomial) -> str:
    number = divisor.value()
    rounding = "floor"
    if number is not None and number > 0 and numerator.terms.get((), 0) == number - 1:
        rounding, numerator = "ceil", numerator - Polynomial.constant(number - 1)
    (monomial, coefficient), *rest = numerator.terms.items()
    top = _operand(numerator) if rest or coefficient > 0 else f"-{_term(monomial, -coefficient)}"
    return f"{rounding}({top}/{_divisor(divisor)})"


def _comparison(sign: str, a: Polynomial, b: Polynomial) -> str:
    """The text of a comparison, with a constant on the right."""
    if a.value() is not None:
        sign, a, b = _MIRRORED.get(sign, sign), b, a
    return f"{_within(a, *_LOOSE)} {sign} {_within(b, *_LOOSE)}"
