"""The dims algebra: what users write, exact values, normal forms, bounds, formulas."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tvm import tirx

from deploykit import formula
from deploykit.compiler.dims import (
    DimRange,
    evaluate,
    free_vars,
    interval,
    parse_dim,
    simplify,
    symbolic_upper_bound,
    to_text,
)
from deploykit.errors import UsageError

BATCH, SEQ, COUNT = (tirx.Var(name, "int64") for name in ("batch", "seq", "count"))
VARS = (BATCH, SEQ, COUNT)
floordiv = tirx.floordiv


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch=1..64", DimRange("batch", 1, 64)),
        ("seq=128", DimRange("seq", 128, 128)),
        ("n=1..", DimRange("n", 1, None)),
        ("n=0..", DimRange("n", 0, None)),
        ("n=..8", DimRange("n", 1, 8)),
        ("n=0", DimRange("n", 0, 0)),
        (" n = 2 .. 3 ", DimRange("n", 2, 3)),
        ("past length + 1=4", DimRange("past length + 1", 4, 4)),
        ("a=b=4", DimRange("a=b", 4, 4)),
    ],
)
def test_a_dim_is_parsed(text, expected):
    assert parse_dim(text) == expected
    assert parse_dim(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch", "cannot read the dim 'batch'"),
        ("", "cannot read the dim ''"),
        ("=3", "cannot read the dim '=3'"),
        ("n=", "cannot read the bounds ''"),
        ("n=..", "cannot read the bounds '..'"),
        ("n=x", "cannot read the bounds 'x'"),
        ("n=1..x", "cannot read the bounds '1..x'"),
        ("n=1...4", "cannot read the bounds '1...4'"),
        ("n=1.5", "cannot read the bounds '1.5'"),
        ("n=1 2", "cannot read the bounds '1 2'"),
        ("n=1_000", "cannot read the bounds '1_000'"),
        ("n=٣", "cannot read the bounds '٣'"),
        ("n=-1", "negative"),
        ("n=-1..4", "negative"),
        ("n=1..-4", "negative"),
        ("n=4..2", "the maximum 2 is below the minimum 4"),
        ("n=99999999999999999999", "beyond the largest int64"),
    ],
)
def test_a_malformed_dim_is_refused_with_its_reason(text, words):
    with pytest.raises(UsageError) as error:
        parse_dim(text)
    assert words in str(error.value)


BINARY = (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, tirx.min, tirx.max)
DIVISIONS = (tirx.floordiv, tirx.floormod, tirx.truncdiv, tirx.truncmod)
COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


@st.composite
def expressions(draw, depth=4):
    kind = draw(st.integers(0, 6)) if depth else 0
    if kind <= 1:
        return draw(st.sampled_from(VARS) | st.integers(-9, 9).map(lambda x: tirx.IntImm("int64", x)))
    inner = expressions(depth - 1)
    if kind <= 3:
        return draw(st.sampled_from(BINARY))(draw(inner), draw(inner))
    if kind == 4:
        return draw(st.sampled_from(DIVISIONS))(draw(inner), draw(st.integers(1, 16)))
    condition = draw(conditions(depth - 1))
    if kind == 5:
        return tirx.Cast("int64", condition)
    return draw(st.sampled_from((tirx.Select, tirx.if_then_else)))(condition, draw(inner), draw(inner))


@st.composite
def conditions(draw, depth):
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind == 0:
        operands = expressions(max(depth - 1, 0))
        return draw(st.sampled_from(COMPARISONS))(draw(operands), draw(operands))
    inner = conditions(depth - 1)
    if kind == 1:
        return tirx.Not(draw(inner))
    return draw(st.sampled_from((tirx.And, tirx.Or)))(draw(inner), draw(inner))


VALUES = st.fixed_dictionaries({var: st.integers(0, 40) for var in VARS})


@given(expressions(), VALUES)
def test_simplification_keeps_the_value(expr, values):
    assert evaluate(simplify(expr), values) == evaluate(expr, values)


@given(expressions(), VALUES)
def test_the_formula_has_the_value(expr, values):
    at = {var.name: value for var, value in values.items()}
    assert formula.evaluate(to_text(expr), at) == evaluate(expr, values)


@given(expressions(), st.data())
def test_an_interval_holds_every_value(expr, data):
    box, values = {}, {}
    for var in VARS:
        values[var] = data.draw(st.integers(0, 40))
        low = data.draw(st.integers(0, values[var]))
        box[var] = low, data.draw(st.none() | st.integers(values[var], 50))
    low, high = interval(expr, box)
    value = evaluate(expr, values)
    assert low is None or low <= value
    assert high is None or value <= high


@given(expressions(), VALUES, st.data())
def test_an_upper_bound_without_data_dims_is_never_exceeded(expr, values, data):
    low = data.draw(st.sampled_from([0, None, BATCH - 40]))
    high = data.draw(st.sampled_from([BATCH + SEQ, BATCH * SEQ, None, 40]))
    inside = [0 if low is None else evaluate(low, values), 10**3 if high is None else evaluate(high, values)]
    assume(inside[0] <= inside[1])
    bound = symbolic_upper_bound(expr, {COUNT: (low, high)})
    if bound is None:
        return
    assert COUNT not in free_vars(bound)
    values = values | {COUNT: data.draw(st.integers(*inside))}
    assert evaluate(expr, values) <= evaluate(bound, values)
