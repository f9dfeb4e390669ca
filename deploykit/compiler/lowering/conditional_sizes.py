"""Replaces sizes that depend on a condition by variables, which are computed once.

    for i in range(Select(axis == 0, 1, n)): ...    ->    extent = Select(axis == 0, 1, n);  for i in range(extent): ...

Some sizes are chosen by the value of an integer: an axis that is only known at run time, or a quotient whose rounding
depends on the sign. Such a size occurs in loop extents, predicates and every index. A variable whose value is hidden
from the simplifier keeps the generated code short. It also keeps the simplifier from multiplying out the cases, which
takes seconds, and does not end if the cases of a size are themselves such sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Bind, Select

from deploykit.compiler.dims.conversion import polynomial
from deploykit.compiler.lowering.raw_abi import inline_binds, variables
from deploykit.compiler.schedules.kernel.stages import scalars_of
from deploykit.compiler.tir.loaded_values import depends_on_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvm.ir import Expr

    from deploykit.compiler.dims.polynomial import Polynomial


def name_choices(func: tirx.PrimFunc, scalars: Sequence[Var]) -> tuple[tirx.PrimFunc, list[Bind]]:
    """Replace every largest int64 `Select` over `scalars` alone by a variable. Returns the new function, and the
    variables with their values. Choices with the same normal form share a variable."""
    named: dict[Polynomial, Bind] = {}

    def name(choice: Select) -> Expr:
        if str(choice.ty.dtype) != "int64" or depends_on_memory(choice, set()):
            return choice
        if any(not any(var.same_as(scalar) for scalar in scalars) for var in variables(choice)):
            return choice
        bind = named.setdefault(polynomial(choice), Bind(Var("extent", "int64"), choice))
        return bind.var

    plain = tvm_ffi.structural_map(func, (Select, name), order="pre")
    return plain, list(named.values())


def opaque(choices: Sequence[Bind]) -> list[Bind]:
    """The variables, with their values hidden from the simplifier."""
    return [Bind(bind.var, tvm_ffi.structural_map(bind.value, (Select, _opaque))) for bind in choices]


def apart_from_choices(change: Callable[[tirx.PrimFunc], tirx.PrimFunc], func: tirx.PrimFunc) -> tirx.PrimFunc:
    """`change(func)`, where `change` sees variables instead of the choices over the scalars of `func`."""
    plain, choices = name_choices(func, scalars_of(func))
    return inline_binds(change(plain), choices) if choices else change(func)


def _opaque(choice: Select) -> Expr:
    return tirx.if_then_else(choice.condition, choice.true_value, choice.false_value)
