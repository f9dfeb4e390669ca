"""Operations on constants that the removal of masks leaves."""

from __future__ import annotations

import pytest
from tvm import tirx

from deploykit.compiler.ragged.conversion.masks import folded
from deploykit.compiler.tir.rewriting import Expr


@pytest.mark.parametrize(
    "quotient",
    [
        tirx.Div(tirx.Var("i", "int64"), tirx.IntImm("int64", 2)),
        tirx.Div(tirx.IntImm("int64", 7), tirx.IntImm("int64", 0)),
        tirx.Div(tirx.FloatImm("float32", 1), tirx.FloatImm("float32", 0)),
    ],
)
def test_a_division_that_constants_do_not_decide_stays(quotient: Expr) -> None:
    assert folded(quotient).same_as(quotient)


def test_a_quotient_of_constants_is_a_constant() -> None:
    found = folded(tirx.Div(tirx.FloatImm("float32", 3), tirx.FloatImm("float32", 2)))
    assert isinstance(found, tirx.FloatImm)
    assert found.value == 1.5
