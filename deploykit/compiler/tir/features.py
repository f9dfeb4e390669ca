"""Asks in a kernel whether its CPU has a feature. The answer is known when code is generated, and the other branch is
left out, so that one kernel serves CPUs that share weights but not instructions."""

from __future__ import annotations

from collections.abc import Collection

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.tir.rewriting import Expr

_HAS = "cpu_has_"


def cpu_has(feature: str) -> Expr:
    """Whether the CPU that code is generated for has a feature, in LLVM's words."""
    return tirx.call_pure_extern("int32", f"{_HAS}{feature}") != 0


def resolved(func: tirx.PrimFunc, features: Collection[str]) -> tirx.PrimFunc:
    """The function for a CPU with these features (`+name`), with only those branches that it takes."""

    def taken(stmt: tirx.IfThenElse) -> tirx.Stmt:
        name = _asked(stmt.condition)
        if name is None:
            return stmt
        if f"+{name}" in features:
            return stmt.then_case
        return tirx.Evaluate(tirx.const(0, "int32")) if stmt.else_case is None else stmt.else_case

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.IfThenElse, taken)))


def _asked(condition: Expr) -> str | None:
    """The feature that a condition asks for; None if it is another condition."""
    if not isinstance(condition, prim.NE) or not isinstance(condition.a, ir.Call):
        return None
    call = condition.a
    if getattr(call.op, "name", "") != "tirx.call_pure_extern":
        return None
    name = str(call.args[0].value)
    return name.removeprefix(_HAS) if name.startswith(_HAS) else None
