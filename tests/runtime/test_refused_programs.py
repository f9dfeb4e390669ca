"""Programs for which no host code can be written are faults of the compiler, and the errors say so."""

from __future__ import annotations

import pytest
from tvm import tirx

from deploykit.compiler.codegen.host.source import emit_host
from deploykit.compiler.program.ir import BindDim, Copy, If, Loop, Reserve, SetDim
from deploykit.errors import UnsupportedModelError
from tests.runtime.programs import Draft


def test_no_outputs() -> None:
    with pytest.raises(ValueError, match="'empty' has no outputs"):
        emit_host([Draft("empty").program()], "0")


def test_a_dim_that_no_input_determines() -> None:
    draft = Draft("lost")
    n = draft.dim("n")
    x, y = draft.input("x", "float32", (n + 1,)), draft.output("y", "float32", (n + 1,))
    with pytest.raises(ValueError, match="dim 'n' is no axis of an input of 'lost'"):
        emit_host([draft.program(Copy(y, x))], "0")


def test_ranks_above_the_limit() -> None:
    draft = Draft("deep")
    x, y = draft.input("x", "float32", (1,) * 17), draft.output("y", "float32", (1,) * 17)
    with pytest.raises(UnsupportedModelError, match="'x' has rank 17, more than 16"):
        emit_host([draft.program(Copy(y, x))], "0")


def test_data_dims_must_be_set_before_they_are_read() -> None:
    n, m, i = (tirx.Var(name, "int64") for name in "nmi")
    for steps in (
        (Reserve("y", n * 4, output=0), BindDim(n, 0)),
        (If(2, (SetDim(n, 1),), ()), Reserve("y", n * 4, output=0)),
        (Loop(i, 3, None, (SetDim(n, 1),), m), Reserve("y", n * 4, output=0)),
        (),
    ):
        draft = Draft("early")
        draft.input("count", "int64", ())
        draft.output("y", "float32", (n,))
        draft.input("flag", "bool", ())
        with pytest.raises(ValueError, match="function 'main' reads 'n' before any step sets it"):
            emit_host([draft.program(*steps)], "0")
