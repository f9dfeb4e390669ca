"""Indices in one shape and in another are those of the same element."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import ir, sym, tirx

from deploykit.compiler.ragged.conversion.contents import RaggedDim
from deploykit.compiler.ragged.conversion.places import at_most, decided, groups, moved, ranges
from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.tir.rewriting import Expr, collect, substitute
from deploykit.compiler.tir.values import const

BATCH, SEQ = (ir.Var(name, "int64") for name in ("batch", "seq"))
DIM = RaggedDim(SEQ, BATCH)
SIZES = {BATCH: 3, SEQ: 5}
SHAPES = [
    ((BATCH, SEQ, 8), (BATCH * SEQ, 8)),
    ((BATCH * SEQ, 8), (BATCH, SEQ, 2, 4)),
    ((BATCH, 4, SEQ, 2), (BATCH * 4, SEQ, 2)),
    ((BATCH, SEQ), (BATCH, 1, 1, SEQ)),
    ((BATCH * SEQ,), (BATCH, SEQ, 1)),
    ((BATCH, SEQ, 6), (BATCH, SEQ, 2, 3)),
]


def exprs(shape: tuple[object, ...]) -> list[Expr]:
    return [const(n) if isinstance(n, int) else n for n in shape]


def number(expr: Expr, values: dict[ir.Var, int]) -> int:
    found = sym.Analyzer().simplify(substitute(expr, {var: const(value) for var, value in values.items()}))
    assert isinstance(found, tirx.IntImm)
    return int(found)


@pytest.mark.parametrize(("old", "new"), [*SHAPES, *((b, a) for a, b in SHAPES)])
def test_the_same_element(old: tuple[object, ...], new: tuple[object, ...]) -> None:
    shape, other = exprs(old), exprs(new)
    axes = [Axis(ir.Var(f"i{n}", "int64"), extent) for n, extent in enumerate(shape)]
    places = moved([axis.var for axis in axes], shape, other, ranges(axes, DIM))
    sizes, others = ([number(n, SIZES) for n in extents] for extents in (shape, other))
    for index in np.ndindex(*sizes):
        values = SIZES | {axis.var: place for axis, place in zip(axes, index, strict=True)}
        found = tuple(number(place, values) for place in places)
        assert np.ravel_multi_index(found, others) == np.ravel_multi_index(index, sizes)


def test_joined_axes_come_apart_without_division() -> None:
    axes = [Axis(ir.Var("b", "int64"), BATCH), Axis(ir.Var("s", "int64"), SEQ)]
    flat = axes[0].var * SEQ + axes[1].var
    places = moved([flat], [BATCH * SEQ], [BATCH, SEQ], ranges(axes, DIM))
    assert [place.same_as(axis.var) for place, axis in zip(places, axes, strict=True)] == [True, True]


def test_shapes_in_groups() -> None:
    assert groups(exprs((BATCH, SEQ, 8)), exprs((BATCH * SEQ, 8))) == [([0, 1], [0]), ([2], [1])]
    assert groups(exprs((BATCH, SEQ, 8)), exprs((BATCH, SEQ, 2, 4))) == [([0], [0]), ([1], [1]), ([2], [2, 3])]


def test_limits_that_ranges_decide() -> None:
    axes = [Axis(ir.Var("b", "int64"), BATCH), Axis(ir.Var("s", "int64"), SEQ)]
    known = ranges(axes, DIM)
    flat = axes[0].var * SEQ + axes[1].var
    assert at_most(flat, BATCH * SEQ - 1, known)
    assert not at_most(flat + 1, BATCH * SEQ - 1, known)
    limited = tirx.Max(tirx.Min(tirx.Select(flat < 0, flat + BATCH * SEQ, flat), BATCH * SEQ - 1), const(0))
    assert not collect(decided(limited, known), (tirx.Min, tirx.Max, tirx.Select))
    open_end = tirx.Min(flat, SEQ - 1)
    assert collect(decided(open_end, known), tirx.Min)
