"""Fronts: each is the maximum of its entries, stays short, and is raised only when merging is requested."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from deploykit.compiler.dims import evaluate
from deploykit.compiler.dims.conversion import expression, polynomial
from deploykit.compiler.dims.formulas import polynomial_text
from deploykit.compiler.program.fronts import Fronts

N, M = (tirx.Var(name, "int64") for name in ("n", "m"))
BOX = {N: (1, 50), M: (0, None)}
POINTS = ({N: 50, M: 1024}, {N: 1, M: 0})

SIZES = st.lists(
    st.builds(
        lambda a, b, c, d: N * M * a + N * b + tirx.floordiv(M * c + 63, 64) * 64 + d, *[st.integers(0, 200)] * 4
    ),
    min_size=1,
    max_size=12,
)
PLACES = st.fixed_dictionaries({N: st.integers(1, 50), M: st.integers(0, 5000)})


def greatest(terms, at):
    return max(evaluate(expression(term.polynomial), at) for term in terms)


@settings(deadline=None)
@given(SIZES, PLACES)
def test_a_front_has_the_maximum_of_its_terms(sizes, at):
    fronts = Fronts(BOX, POINTS, most=100)
    front = fronts.front(fronts.term(polynomial(size)) for size in sizes)
    assert greatest(front, at) == max(evaluate(size, at) for size in sizes)


@settings(deadline=None)
@given(SIZES, PLACES)
def test_a_shortened_front_bounds_its_terms(sizes, at):
    fronts = Fronts(BOX, POINTS, most=2)
    front = fronts.front(fronts.term(polynomial(size)) for size in sizes)
    assert len(front) <= 2
    assert greatest(front, at) >= max(evaluate(size, at) for size in sizes)


def texts(*sizes, most=8):
    fronts = Fronts(BOX, POINTS, most)
    return [polynomial_text(term.polynomial) for term in fronts.front(fronts.term(polynomial(s)) for s in sizes)]


def test_entries_that_are_nowhere_greater_are_dropped():
    assert texts(N * 512, N * 1024) == ["1024*n"]
    assert texts(N * M, M) == ["m*n"]
    assert texts(tirx.floordiv(N + 63, 64) * 64, N + 63) == ["n + 63"]
    assert texts(N, M) == ["m", "n"]


def test_the_merger_that_costs_least_at_the_upper_bounds_is_made():
    assert texts(N * M * 64, N * 128, N * 64 + 1000, most=2) == ["64*m*n", "128*n + 1000"]
