"""Prefetches: elements that will be used soon come to the caches meanwhile."""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.tir.values import const

LINE = 64
"""The bytes of a line of a cache."""

_READ, _KEEP, _DATA = 0, 3, 1
"""The operands of LLVM's `prefetch`."""


def prefetch(load: ir.TensorLoad) -> tirx.Stmt:
    """Prefetch the cache line of an element that will be used soon. The element need not exist."""
    settings = [tirx.IntImm("int32", value) for value in (_READ, _KEEP, _DATA)]
    return tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", tirx.address_of(load), *settings))


def without_prefetches(body: tirx.Stmt) -> tirx.Stmt:
    """`body` for a device without such an instruction."""

    def dropped(statement: tirx.Evaluate) -> tirx.Stmt:
        return tirx.Evaluate(const(0)) if is_prefetch(statement) else statement

    result: tirx.Stmt = tvm_ffi.structural_map(body, (tirx.Evaluate, dropped))
    return result


def is_prefetch(statement: tirx.Evaluate) -> bool:
    call = statement.value
    return isinstance(call, ir.Call) and call.op.same_as(_CALL)


_CALL = ir.Op.get("tirx.call_llvm_intrin")
