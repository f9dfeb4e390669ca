"""Conclusions from the ranges of dims and from conditions that a run has checked."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import tirx

from deploykit.compiler.dims import evaluate, simplify, to_text
from deploykit.compiler.dims.facts import Facts
from deploykit.compiler.operators.building.integers import equal, expr, less, less_equal, maximum, negate
from tests.compiler.dims.test_dims import COMPARISONS, VARS, conditions, expressions

BATCH, SEQ, COUNT = VARS
div = tirx.floordiv


def known(**ends: tuple[int, int | None]) -> Facts:
    facts = Facts()
    for var in VARS:
        facts.bind(var, *ends.get(var.name, (1, None)))
    return facts


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (tirx.Select(equal(div(SEQ, 5), 0), tirx.IntImm("int64", -1), div(SEQ, 5) - 1), "floor(seq/5) - 1"),
        (tirx.Select(negate(equal(SEQ, 3)), 4 * SEQ, tirx.IntImm("int64", 12)), "4*seq"),
        (tirx.Select(equal(SEQ, 1), COUNT, COUNT + 2 - 2 * SEQ), "count - 2*seq + 2"),
        (tirx.Select(equal(SEQ, 1), BATCH, COUNT), "batch if seq == 1 else count"),
    ],
)
def test_branches_that_are_equal_where_they_meet_are_one(formula, text):
    assert to_text(simplify(formula)) == text


def test_what_a_run_has_checked_is_known():
    facts = known()
    length = div(SEQ, 20) - 1
    assert not facts.proves(SEQ >= 20)
    assert isinstance(facts.simplify(maximum(length, 0)), tirx.Max)
    facts.assume(tirx.And(less_equal(0, length), less(3, BATCH)))
    assert facts.box[SEQ] == (20, None)
    assert facts.box[BATCH] == (4, None)
    assert to_text(facts.simplify(maximum(length, 0))) == "floor(seq/20) - 1"
    assert to_text(facts.simplify(tirx.truncdiv(SEQ - 20, tirx.IntImm("int64", 20)))) == "floor(seq/20) - 1"


def test_assumptions_can_be_dropped():
    facts = known()
    mark = facts.mark()
    for least in (7, 9):
        facts.assume(less_equal(least, SEQ))
    assert facts.proves(less_equal(9, SEQ))
    facts.forget_since(mark)
    assert facts.box[SEQ] == (1, None)
    assert not facts.proves(less_equal(2, SEQ))


def test_proofs_about_large_expressions_end():
    """Each step doubles the expression as a tree, and so would double the time of TVM's analyzer."""
    facts, size = known(), COUNT
    for step in range(12):
        size = tirx.Select(equal(size, step + 2), BATCH, tirx.max(size, SEQ + step))
    began = time.process_time()
    facts.proves(less_equal(1, size))
    assert facts.proves(less_equal(1, tirx.max(size, BATCH)))
    assert time.process_time() - began < 10


def test_a_dim_of_one_size_stands_in_conditions() -> None:
    facts = Facts()
    facts.bind(BATCH, 0, None)
    facts.bind(SEQ, 20, 20)
    differ = facts.simplify(tirx.Cast("int64", tirx.NE(BATCH, SEQ)))
    assert [evaluate(differ, {BATCH: n, SEQ: 20}) for n in (0, 20, 21)] == [1, 0, 1]


ENDS = st.tuples(st.integers(0, 20), st.none() | st.integers(20, 40))


@settings(deadline=None)
@given(expressions(), conditions(3), st.tuples(ENDS, ENDS, ENDS), st.lists(expressions(2), max_size=3), st.data())
def test_what_follows_is_true(formula, condition, ends, limits, data):
    facts = Facts()
    values = {}
    for var, (low, high) in zip(VARS, ends, strict=True):
        facts.bind(var, low, high)
        values[var] = data.draw(st.integers(low, 45 if high is None else high))
    for limit in limits:
        checked = data.draw(st.sampled_from(COMPARISONS))(limit, expr(data.draw(st.integers(-5, 30))))
        assume(evaluate(checked, values))
        facts.assume(checked)
    assert evaluate(facts.simplify(formula), values) == evaluate(formula, values)
    if facts.proves(condition):
        assert evaluate(condition, values)
