from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from deploykit.artifact.formula import evaluate
from deploykit.compiler import dims
from deploykit.errors import ArtifactError

NAMES = ["n", "past length", "past_length", "n + 1", "1", "max", "if", '"', "\\", "\u2028", "名前"]
VARIABLES = [tirx.Var(name, "int64") for name in NAMES]
EXPRESSIONS = st.recursive(
    st.sampled_from(VARIABLES) | st.integers(0, 9).map(lambda n: tirx.IntImm("int64", n)),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, n: tirx.floordiv(a, tirx.IntImm("int64", n)), inner, st.integers(1, 9)),
        st.builds(lambda a, n: tirx.floormod(a, tirx.IntImm("int64", n)), inner, st.integers(1, 9)),
        st.builds(lambda a, b: tirx.floordiv(a, tirx.max(b, tirx.IntImm("int64", 1))), inner, inner),
        st.builds(lambda a, b: tirx.truncdiv(a, tirx.max(b, tirx.IntImm("int64", 1))), inner, inner),
        st.builds(tirx.max, inner, inner),
        st.builds(tirx.min, inner, inner),
        st.builds(lambda a, b, c: tirx.Select(a < b, b, c), inner, inner, inner),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(EXPRESSIONS, st.tuples(*[st.integers(0, 50)] * len(VARIABLES)))
def test_a_formula_has_the_value_of_its_expression(expression, values: tuple[int, ...]) -> None:
    sizes = {variable.name: value for variable, value in zip(VARIABLES, values, strict=True)}
    assert evaluate(dims.to_text(expression), sizes) == dims.evaluate(expression, sizes)


@pytest.mark.parametrize("text", ["", "m", "n +", "n.real", "(1).real", "open(n)", "n if", "[n]", "1 / 0", "'a'"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ArtifactError):
        evaluate(text, {"n": 1})


def test_names_that_are_not_plain_words_are_quoted() -> None:
    n, plain, other, one = (tirx.Var(name, "int64") for name in ("n", "past_length", "past length", "1"))
    assert dims.to_text(4 * n * plain + other + one + 1) == '4*n*past_length + "1" + "past length" + 1'
    assert evaluate('4*n + 1 + "n + 1"', {"n": 3, "n + 1": 100}) == 113
