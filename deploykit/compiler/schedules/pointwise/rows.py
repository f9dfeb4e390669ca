"""Neighbouring elements by functions on vectors in C, where the store of an element has a form for all lanes."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from deploykit.compiler.devices.row_functions import RowFunctions
from deploykit.compiler.schedules.kernel.loops import loop
from deploykit.compiler.schedules.pointwise.fours import in_fours
from deploykit.compiler.schedules.pointwise.strips import in_strips
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import as_index


def row_of(
    functions: RowFunctions, count: Expr | int, most: int, store: Callable[[Expr], tirx.BufferStore]
) -> tirx.Stmt:
    """`store(j)` for `count` neighbouring elements, at most `most`, by functions if they have such a form."""
    extent = as_index(count)
    found = in_fours("j", extent, store) if functions.fours else in_strips(extent, most, store)
    return found or loop("j", extent, store)
