"""The dims algebra: texts of users, exact values, normal forms, bounds, formulas."""

from math import prod

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tvm import tirx

from deploykit.artifact import formula
from deploykit.compiler.dims import (
    DimRange,
    evaluate,
    free_vars,
    interval,
    largest,
    magnitude,
    parse_dim,
    simplify,
    symbolic_upper_bound,
    to_text,
)
from deploykit.compiler.dims.evaluate import operands
from deploykit.errors import UsageError

BATCH, SEQ, COUNT = (tirx.Var(name, "int64") for name in ("batch", "seq", "count"))
VARS = (BATCH, SEQ, COUNT)
SEVEN = tirx.IntImm("int64", 7)
SQUARE = (SEQ + 17) * (SEQ + 17)
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


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (7, "7"),
        (tirx.IntImm("int64", 7), "7"),
        (BATCH * 4 * SEQ + 1024, "4*batch*seq + 1024"),
        (1024 + SEQ * BATCH * 2 + BATCH * SEQ * 2, "4*batch*seq + 1024"),
        (BATCH - BATCH, "0"),
        (5 - BATCH, "5 - batch"),
        (0 - BATCH * 3, "-3*batch"),
        (tirx.floordiv(BATCH + 15, 16) * 16, "16*ceil(batch/16)"),
        (tirx.floordiv(BATCH * 64 + 63, 64) * 64, "64*batch"),
        (tirx.floordiv(BATCH * 40 + 63, 64) * 64, "64*ceil(5*batch/8)"),
        (tirx.floordiv(tirx.floordiv(SEQ - 1, 2) + 2, 2), "ceil(seq/4)"),
        (tirx.floordiv(SEQ, 2), "floor(seq/2)"),
        (tirx.floordiv(SEQ + 3, BATCH), "floor((seq + 3)/batch)"),
        (SEQ % 4 + 1, "(seq % 4) + 1"),
        (SEQ + (8 - SEQ % 8) % 8, "8*ceil(seq/8)"),
        ((7 - BATCH) % 8, "8*floor(batch/8) - batch + 7"),
        (SEQ - SEQ % tirx.IntImm("int64", -8), "8*ceil(seq/8)"),
        ((SEQ % 12 + BATCH) % 4, "(batch + seq) % 4"),
        (tirx.floordiv(SEQ, -8), "floor(-seq/8)"),
        (tirx.truncdiv(SEQ, tirx.max(BATCH, 1)) + 1, "trunc(seq/max(1, batch)) + 1"),
        *((divide(SEQ - SEQ, BATCH), "0") for divide in (tirx.floordiv, tirx.floormod, tirx.truncdiv)),
        ((SEQ * 8 + 3) % 8, "3"),
        *((divide(SQUARE * 4, SQUARE), "4") for divide in (tirx.floordiv, tirx.truncdiv)),
        (tirx.floordiv(SEQ * SEQ * 4 + SEQ * 136 + 1156, SQUARE), "4"),
        (tirx.floordiv(SQUARE * BATCH * 3, SEQ + 17), "3*batch*(seq + 17)"),
        (tirx.floordiv(SEQ * BATCH - SEQ + BATCH * BATCH - BATCH, BATCH + SEQ), "batch - 1"),
        (tirx.floordiv(SEQ * SEQ, SEQ + BATCH), "floor(seq*seq/(batch + seq))"),
        (tirx.floormod(SEQ * BATCH * 6 + SEQ * 3, SEQ * 3), "0"),
        (tirx.floormod(SEQ * BATCH * 5 + SEQ * 3, SEQ * 2), "((5*batch + 3)*seq) % (2*seq)"),
        (tirx.floordiv(BATCH, SEQ * COUNT), "floor(batch/(count*seq))"),
        (tirx.truncdiv(BATCH, (SEQ % 2) * 3), "trunc(batch/(3*(seq % 2)))"),
        (BATCH % (SEQ % 2 + 1), "batch % ((seq % 2) + 1)"),
        (tirx.max(tirx.max(BATCH, SEQ * 2), BATCH), "max(batch, 2*seq)"),
        (tirx.min(BATCH, 8) * 4, "4*min(batch, 8)"),
        ((tirx.floordiv(SEQ, 2) - 1) * (tirx.floordiv(BATCH, 2) + 3) * 8, "8*(floor(batch/2) + 3)*(floor(seq/2) - 1)"),
        (tirx.Select(BATCH == 1, SEQ, BATCH), "seq if batch == 1 else batch"),
        (
            tirx.if_then_else(tirx.all(BATCH > 3, SEQ <= 2), SEQ, BATCH) + 1,
            "(seq if batch > 3 and seq <= 2 else batch) + 1",
        ),
        (tirx.Cast("int64", tirx.Cast("int32", BATCH)), "batch"),
        (tirx.Not(BATCH == SEQ), "not batch == seq"),
        (BATCH << 3, "8*batch"),
    ],
)
def test_a_formula_reads_as_a_person_writes_it(expr, text):
    assert to_text(expr) == text


def test_simplify_gives_ints_where_nothing_varies():
    assert simplify(3) == 3
    assert simplify(BATCH * (SEQ + 1) - BATCH * SEQ - BATCH + 2) == 2
    assert simplify(BATCH < BATCH + 1) == 1
    assert str(simplify(tirx.floordiv(BATCH * 64 + 63, 64) * 64)) == str(BATCH * 64)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (4, (4, 4)),
        (BATCH * 4, (4, 256)),
        (SEQ * BATCH, (0, None)),
        (0 - SEQ, (None, 0)),
        (BATCH - tirx.floordiv(BATCH, 2), (1, 32)),
        (BATCH * SEQ - BATCH - SEQ + 1, (-63, None)),
        (BATCH * BATCH - BATCH * 2 + 1, (0, 3969)),
        (tirx.floordiv(SEQ, BATCH), (0, None)),
        (tirx.floordiv(100, BATCH), (1, 100)),
        (SEQ % 8, (0, 7)),
        ((8 - SEQ % 8) % 8, (0, 7)),
        (BATCH % 100, (1, 64)),
        (tirx.max(BATCH, SEQ), (1, None)),
        (tirx.min(BATCH, SEQ), (0, 64)),
        (tirx.Select(BATCH > 70, SEQ, BATCH), (1, 64)),
        (tirx.if_then_else(SEQ > 70, SEVEN, BATCH), (1, 64)),
        (tirx.Cast("int64", BATCH >= 1), (1, 1)),
        (COUNT, (None, None)),
    ],
)
def test_intervals(expr, expected):
    assert interval(expr, {BATCH: (1, 64), SEQ: (0, None)}) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (BATCH * 4, "4*batch"),
        (COUNT * 8, "8*batch*seq"),
        ((COUNT - 1) * SEQ + 3, "batch*seq*seq - seq + 3"),
        (BATCH - COUNT, "batch - 1"),
        (tirx.max(COUNT, BATCH) * 4, "4*max(batch, batch*seq)"),
        (tirx.min(COUNT, 10), "min(batch*seq, 10)"),
        (tirx.Select(COUNT > 3, COUNT, SEVEN), "max(batch*seq, 7)"),
        (tirx.Select(BATCH > 3, COUNT, SEVEN), "batch*seq if batch > 3 else 7"),
        (tirx.floordiv(COUNT + 63, 64) * 64, "64*ceil(batch*seq/64)"),
        (tirx.floordiv(SEQ, COUNT), "seq"),
        (COUNT % 5, "4"),
    ],
)
def test_upper_bounds_without_data_dims(expr, expected):
    assert to_text(symbolic_upper_bound(expr, {COUNT: (1, BATCH * SEQ)})) == expected


def test_upper_bounds_follow_data_dims_bounded_by_others():
    rows = tirx.Var("rows", "int64")
    assert to_text(symbolic_upper_bound(rows * 4, {COUNT: (0, BATCH), rows: (0, COUNT * 2)})) == "8*batch"


def test_upper_bounds_join_the_shares_of_a_whole():
    """A tensor of `batch*seq` elements has a shape of three sizes that are known only at run time."""
    rows, columns = tirx.Var("rows", "int64"), tirx.Var("columns", "int64")
    shares = {
        COUNT: (1, BATCH * SEQ),
        rows: (1, floordiv(BATCH * SEQ, COUNT)),
        columns: (1, floordiv(BATCH * SEQ, COUNT * rows)),
    }
    assert to_text(symbolic_upper_bound(COUNT * rows * columns * 4, shares)) == "4*batch*seq"
    assert to_text(symbolic_upper_bound(COUNT * rows * SEQ, shares)) == "batch*seq*seq"


def test_without_a_maximum_there_is_no_upper_bound():
    assert symbolic_upper_bound(COUNT * 8, {COUNT: (0, None)}) is None
    assert symbolic_upper_bound(tirx.min(COUNT, BATCH), {COUNT: (0, None)}).same_as(BATCH)


def test_evaluate_takes_variables_or_names_and_only_the_branch_chosen():
    choice = tirx.if_then_else(BATCH == 0, SEVEN, tirx.floordiv(SEQ, BATCH))
    assert evaluate(choice, {"batch": 0, "seq": 3}) == 7
    assert evaluate(choice, {BATCH: 2, SEQ: 7}) == 3
    assert evaluate(tirx.floordiv(0 - SEQ, 2), {SEQ: 7}) == -4
    assert evaluate(tirx.truncdiv(0 - SEQ, 2), {SEQ: 7}) == -3
    with pytest.raises(KeyError, match="no value for dim 'seq'"):
        evaluate(choice, {"batch": 2})
    with pytest.raises(TypeError, match="not an integer expression"):
        evaluate(tirx.Cast("float32", BATCH), {"batch": 2})


def test_free_variables_come_once_in_order():
    assert [v.name for v in free_vars(SEQ * BATCH + tirx.max(COUNT, SEQ))] == ["seq", "batch", "count"]
    assert free_vars(3) == ()


BINARY = (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, tirx.min, tirx.max)
FLOORED = (tirx.floordiv, tirx.floormod)
DIVISIONS = (*FLOORED, tirx.truncdiv, tirx.truncmod)
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
        division = draw(st.sampled_from(DIVISIONS))
        if draw(st.booleans()):
            divisor = draw(divisors())
            return division(draw(inner) * (divisor if draw(st.booleans()) else 1), divisor)
        sign = draw(st.sampled_from((1, -1))) if division in FLOORED else 1
        return division(draw(inner), tirx.IntImm("int64", sign * draw(st.integers(1, 16))))
    condition = draw(conditions(depth - 1))
    if kind == 5:
        return tirx.Cast("int64", condition)
    return draw(st.sampled_from((tirx.Select, tirx.if_then_else)))(condition, draw(inner), draw(inner))


@st.composite
def divisors(draw):
    """A positive product of sums."""
    parts = [draw(st.sampled_from(VARS)) + draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 2)))]
    return prod(parts, start=draw(st.integers(1, 3)))


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


@settings(deadline=None)
@given(expressions(), VALUES)
def test_simplification_keeps_the_value(expr, values):
    assert evaluate(simplify(expr), values) == evaluate(expr, values)


@settings(deadline=None)
@given(expressions(), VALUES)
def test_the_formula_has_the_value(expr, values):
    at = {var.name: value for var, value in values.items()}
    assert formula.evaluate(to_text(expr), at) == evaluate(expr, values)


@settings(deadline=None)
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


@settings(deadline=None)
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


@settings(deadline=None)
@given(expressions(), st.fixed_dictionaries({var: st.integers(0, 1 << 40) for var in VARS}))
@example(BATCH * SEQ, {**dict.fromkeys(VARS, 1), BATCH: 0})
def test_a_magnitude_is_nowhere_exceeded(expr, values):
    """Neither by the value nor by any operand that it is computed from."""
    most = evaluate(magnitude(expr, (BATCH, SEQ)), values)
    assert all(abs(evaluate(part, values)) <= most for part in computed(expr))


@settings(deadline=None)
@given(expressions(), st.fixed_dictionaries({var: st.integers(0, 1 << 40) for var in VARS}))
@example(BATCH * SEQ, {**dict.fromkeys(VARS, 1), BATCH: 0})
def test_nothing_on_the_way_is_beyond_the_largest(expr, values):
    most = largest(expr, {var: (0, value) for var, value in values.items()})
    assert all(abs(evaluate(part, values)) <= most for part in computed(expr))


def computed(expr):
    """`expr` and all its subexpressions, without constants."""
    parts, waiting = [expr], [expr]
    while waiting:
        found = operands(waiting.pop())
        parts += [part for part in found if not isinstance(part, tirx.IntImm)]
        waiting += found
    return parts


def test_a_limit_that_leads_to_the_end_does_not_count():
    """A Slice to the end leaves such a limit, which must not make the size look too large."""
    size = tirx.min(BATCH * SEQ, tirx.IntImm("int64", 2**63 - 1)) * 8
    assert largest(size, {BATCH: (0, 3), SEQ: (0, 5)}) == 120
    assert evaluate(magnitude(size, VARS), {BATCH: 3, SEQ: 5}) == 120
    lowest = tirx.max(BATCH - SEQ, tirx.IntImm("int64", -(2**63 - 1))) + 2
    assert evaluate(magnitude(lowest, VARS), {BATCH: 3, SEQ: 5}) == 10
    assert evaluate(magnitude(tirx.max(BATCH, tirx.IntImm("int64", 2**63 - 1)) + 2, VARS), {BATCH: 3}) == 2**63 + 1


def test_of_a_sum_that_is_cut_at_zero_only_its_side_counts():
    """A Slice to a far end, of the last element, leaves such a size."""
    far = tirx.IntImm("int64", 1 << 31)
    ends = [tirx.min(0, far - var) + 1 for var in (BATCH, SEQ)]
    assert evaluate(magnitude(ends[0] * ends[1] * 64, VARS), {BATCH: 3, SEQ: 5}) == 1 << 31
    assert largest(ends[0] * ends[1] * 64, {BATCH: (0, 3), SEQ: (0, 5)}) == 1 << 31
    assert largest(ends[0] * ends[1] * 64, {BATCH: (0, 3), SEQ: (0, None)}) is None
    rest = tirx.max(BATCH - far + SEQ, 0) * tirx.max(0, BATCH - far)
    assert evaluate(magnitude(rest, VARS), {BATCH: 3, SEQ: 5}) == 1 << 31
    assert evaluate(magnitude(tirx.min(0, far - BATCH), ()), {BATCH: -3}) == (1 << 31) + 3


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([*VARS, BATCH * SEQ, 7, 1 << 20, -(1 << 33)])), min_size=2),
    st.sampled_from([tirx.min, tirx.max]),
    st.fixed_dictionaries({var: st.integers(0, 1 << 40) for var in VARS}),
)
def test_cuts_of_sums_are_nowhere_exceeded(terms, cut, values):
    total = tirx.IntImm("int64", 1 << 17)
    for is_added, term in terms:
        part = tirx.IntImm("int64", term) if isinstance(term, int) else term
        total = total + part if is_added else tirx.Sub(total, part)
    expr = cut(total, 0) * SEQ + 3
    most = evaluate(magnitude(expr, (BATCH, SEQ)), values)
    bound = largest(expr, {var: (0, value) for var, value in values.items()})
    assert all(abs(evaluate(part, values)) <= min(most, bound) for part in computed(expr))


def test_the_lowest_number_is_added():
    lowest = tirx.IntImm("int64", -(2**63))
    assert evaluate(simplify(BATCH + lowest + SEQ), {BATCH: 3, SEQ: 5}) == 8 - 2**63


def test_the_largest_of_nested_quotients_stays_near_their_value():
    """Sizes that are rounded up to a multiple many times have this form."""
    size = BATCH
    for _ in range(40):
        size = tirx.floordiv(size + 31, 32) * 32 + 1
    assert largest(size, {BATCH: (1, 1000)}) < 20_000
    assert largest(size, {BATCH: (1, None)}) is None
    assert largest(BATCH * 8 // 1024, {BATCH: (0, 1 << 61)}) == 1 << 64


def test_the_magnitude_of_products_of_quotients_stays_near_their_value():
    """Tables of the positions of pairs of patches have this form."""
    patches = tirx.floordiv(BATCH, 16) * tirx.floordiv(SEQ, 16) + 1
    size = patches * patches * patches * patches
    assert evaluate(size, {BATCH: 1024, SEQ: 1024}) <= 2**49
    assert evaluate(magnitude(size, VARS), {BATCH: 1024, SEQ: 1024}) < 2**50
    assert evaluate(magnitude(tirx.floordiv(BATCH, 1024), VARS), {BATCH: 5000}) == 5000


def test_a_magnitude_of_what_may_be_negative():
    assert str(simplify(magnitude(BATCH - SEQ * 2, (BATCH, SEQ)))) == str(BATCH + SEQ * 2)
    assert evaluate(magnitude(BATCH - COUNT, (BATCH,)), {BATCH: 3, COUNT: -5}) == 8
    with pytest.raises(TypeError, match="not an integer expression"):
        magnitude(BATCH & SEQ, VARS)
