"""Sizes that depend on a condition, computed once.

    for i in range(Select(axis == 0, 1, n)): ...    ->    extent = Select(axis == 0, 1, n);  for i in range(extent): ...

A size that is chosen by the value of an integer (an axis that is only known at run time) occurs in loop extents,
predicates and every index. As a variable, with a value that the simplifier does not look into, it keeps the generated
code short and the simplifier from multiplying out its cases, which takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Bind, Select

from deploykit.compiler.codegen.memory import depends_on_memory
from deploykit.compiler.codegen.rewrite import variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tvm.ir import Expr


def name_choices(func: tirx.PrimFunc, scalars: Sequence[Var]) -> tuple[tirx.PrimFunc, list[Bind]]:
    """The function with every largest int64 `Select` over `scalars` alone replaced by a variable, and their values."""
    binds: list[Bind] = []

    def name(choice: Select) -> Expr:
        if str(choice.ty.dtype) != "int64" or depends_on_memory(choice, set()):
            return choice
        if any(not any(var.same_as(scalar) for scalar in scalars) for var in variables(choice)):
            return choice
        value = tvm_ffi.structural_map(choice, (Select, _opaque))
        for bind in binds:
            if tvm_ffi.structural_equal(bind.value, value):
                return bind.var
        binds.append(Bind(Var("extent", "int64"), value))
        return binds[-1].var

    return tvm_ffi.structural_map(func, (Select, name), order="pre"), binds


def _opaque(choice: Select) -> Expr:
    return tirx.if_then_else(choice.condition, choice.true_value, choice.false_value)
