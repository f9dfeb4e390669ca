"""The states of the proof are right about numbers: whatever an expression computes, its state says nothing false.

Each leaf is a constant, a number far below zero, a number from valid positions, or one from the padding. An expression
is computed twice with other numbers in the padding. A constant state must be that number both times, a low one low, and
a valid one the same both times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from deploykit.compiler.ragged.conversion.states import (
    LOW,
    VALID,
    State,
    along,
    binary,
    constant,
    garbage,
    low,
    select,
    summed,
)

MODERATE_MOST = 1000

Numbers = tuple[float, float]
"""The value of an expression in two runs that differ in the padding only."""


@dataclass(frozen=True, repr=False)
class Term:
    state: State
    numbers: Numbers
    is_truth: bool = False
    text: str = ""
    """How it was made, for failures."""
    parts: tuple[Term, ...] = ()

    @property
    def is_moderate(self) -> bool:
        """Whether all numbers that are not far below zero are close to it, which the proof takes for granted."""
        close = self.state.is_low or max(map(abs, self.numbers)) < MODERATE_MOST
        return close and all(part.is_moderate for part in self.parts)


ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.Max: max,
    tirx.Min: min,
}
COMPARISONS: dict[type, Callable[[float, float], bool]] = {
    tirx.LT: lambda a, b: a < b,
    tirx.LE: lambda a, b: a <= b,
    tirx.GT: lambda a, b: a > b,
    tirx.GE: lambda a, b: a >= b,
    tirx.EQ: lambda a, b: a == b,
}
MODERATE = st.floats(-4, 4, width=32)
LOWEST = st.sampled_from([-1e4, -1e9, float(np.finfo(np.float32).min), -math.inf])
LEAVES = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.5]).map(lambda n: Term(constant(n), (n, n))),
    LOWEST.map(lambda n: Term(constant(n), (n, n))),
    st.tuples(LOWEST, MODERATE, MODERATE).map(lambda n: Term(low(n[0]), (n[0] + n[1], n[0] + n[2]))),
    MODERATE.map(lambda n: Term(VALID, (n, n))),
    st.tuples(MODERATE, MODERATE).map(lambda n: Term(garbage("padding"), n)),
)


def _text(name: str, *parts: Term) -> str:
    return f"{name}({', '.join(part.text or str(part.numbers) for part in parts)})"


def _combined(parts: tuple[type, Term, Term]) -> Term:
    operator, a, b = parts
    if operator in ARITHMETIC:
        with np.errstate(all="ignore"):
            first, second = (ARITHMETIC[operator](x, y) for x, y in zip(a.numbers, b.numbers, strict=True))
        return Term(
            binary(operator, a.state, b.state), (first, second), text=_text(operator.__name__, a, b), parts=(a, b)
        )
    truths = tuple(float(COMPARISONS[operator](x, y)) for x, y in zip(a.numbers, b.numbers, strict=True))
    said = _text(operator.__name__, a, b)
    return Term(binary(operator, a.state, b.state), (truths[0], truths[1]), is_truth=True, text=said, parts=(a, b))


def _chosen(parts: tuple[Term, Term, Term]) -> Term:
    condition, yes, no = parts
    if not condition.is_truth:
        return yes
    numbers = tuple(yes.numbers[i] if condition.numbers[i] else no.numbers[i] for i in range(2))
    said = _text("select", condition, yes, no)
    return Term(select(condition.state, yes.state, no.state), (numbers[0], numbers[1]), text=said, parts=parts)


TERMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([*ARITHMETIC, *COMPARISONS]), inner, inner).map(_combined),
        st.tuples(inner, inner, inner).map(_chosen),
    ),
    max_leaves=6,
)


@given(TERMS)
@settings(max_examples=500, deadline=None)
def test_a_state_says_nothing_false(term: Term) -> None:
    first, second = term.numbers
    if any(math.isnan(n) for n in term.numbers) or not term.is_moderate:
        return
    if term.state.kind == "constant":
        assert first == second == term.state.value
    elif term.state.kind == "low":
        assert max(first, second) <= LOW / 2
    elif term.state.kind == "valid":
        assert first == second


@given(st.sampled_from([tirx.Add, tirx.Max]), st.lists(LEAVES, min_size=1, max_size=3), LEAVES)
@settings(max_examples=300, deadline=None)
def test_padding_does_not_get_into_a_reduction(operator: type, valid: list[Term], padding: Term) -> None:
    """A reduction of valid elements and of the padding is that of the valid elements, if the proof says so."""
    inside = valid[0].state
    if any(each.state != inside for each in valid) or inside.kind in ("garbage", "low"):
        return
    if summed(operator, inside, padding.state) is None:
        return
    combine = sum if operator is tirx.Add else max
    alone = [combine(each.numbers[run] for each in valid) for run in range(2)]
    padded = [combine([*(each.numbers[run] for each in valid), padding.numbers[run]]) for run in range(2)]
    if operator is tirx.Max and max(map(abs, alone)) >= -LOW:
        return
    assert padded == alone


def test_other_dims_keep_what_is_the_same_for_all_elements() -> None:
    assert along(tirx.Add, constant(0)) == constant(0)
    assert along(tirx.Add, constant(1)) == VALID
    assert along(tirx.Max, constant(1)) == constant(1)
