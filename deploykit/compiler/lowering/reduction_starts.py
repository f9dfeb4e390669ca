"""Stores the initial values of reductions before the reduction loops.

    for i: for k: { if k == 0: s[i] = 0;  s[i] += x[i, k] }      (what a reduction block means)
 -> for i: { s[i] = 0;  for k: s[i] += x[i, k] }

The two forms differ when the reduction loops run zero times: only the second stores the initial value. A reduction
block that its schedule has decomposed has no initial value left and stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import SBlockRealize

from deploykit.compiler.lowering.raw_abi import variables

if TYPE_CHECKING:
    from tvm.ir import Var

_REDUCTION = 2
"""`IterVar.CommReduce`, the kind of a block's reduction axis."""


def initialise_first(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Decompose every reduction block at its outermost reduction loop."""
    reductions: list[SBlockRealize] = []

    def visit(realize: SBlockRealize) -> None:
        if realize.block.init is not None:
            reductions.append(realize)

    tvm_ffi.structural_walk(func.body, (SBlockRealize, visit), order="pre")
    if not reductions:
        return func
    schedule = s_tir.Schedule(func)
    for realize in reductions:
        _decompose(schedule, realize)
    return schedule.mod["main"]


def _decompose(schedule: s_tir.Schedule, realize: SBlockRealize) -> None:
    reduced = _reduction_variables(realize)
    block = schedule.get_sblock(realize.block.name_hint)
    for loop in schedule.get_loops(block):
        if schedule.get(loop).loop_var in reduced:
            schedule.decompose_reduction(block, loop)
            return


def _reduction_variables(realize: SBlockRealize) -> set[Var]:
    """The loop variables that determine the reduction axes of a block."""
    found: set[Var] = set()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type == _REDUCTION:
            found.update(variables(value))
    return found
