"""Queries about the bindings of Relax functions, and how passes rewrite them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import ir, relax

Rewrite = Callable[[relax.BindingBlock], relax.BindingBlock]
"""Returns a block that replaces the given one, or the same block if nothing changes."""


class Graph:
    """The bindings of a function: the value of each variable, the variables whose kernels and operators read it, and
    how often it is used."""

    def __init__(self, func: relax.Function) -> None:
        bindings = [binding for block in func.body.blocks for binding in block.bindings]
        self.values = {b.var: b.value for b in bindings if isinstance(b, relax.VarBinding)}
        used: list[ir.Var] = []
        tvm_ffi.structural_walk(func.body, (ir.Var, used.append))
        self.uses = Counter(used)
        for binding in bindings:
            self.uses[binding.var] -= 1
        self.readers: dict[relax.Var, list[relax.Var]] = {}
        for var, value in self.values.items():
            for operand in arguments_of(value):
                if isinstance(operand, relax.Var):
                    self.readers.setdefault(operand, []).append(var)


def operator_of(value: relax.Expr) -> str:
    """The name of the operator that `value` calls; empty if it calls none."""
    return str(getattr(getattr(value, "op", None), "name", ""))


def arguments_of(value: relax.Expr) -> Sequence[relax.Expr]:
    """The operands of a kernel or an operator."""
    if not isinstance(value, relax.Call):
        return []
    if operator_of(value) == "relax.call_tir":
        return list(value.args[1].fields)
    return list(value.args)


def with_blocks(
    func: relax.Function, blocks: Sequence[relax.BindingBlock], result: relax.Expr | None = None
) -> relax.Function:
    """`func` with other blocks of bindings, and with another `result` if one is given."""
    body = relax.SeqExpr(list(blocks), func.body.body if result is None else result)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def rewritten(
    mod: ir.IRModule, builder: relax.BlockBuilder, rewrite: Callable[[relax.Function], Rewrite]
) -> ir.IRModule:
    """`mod`, with each block of a function replaced by what `rewrite(function)` returns for it; `mod` itself if no
    block changes. `builder` holds `mod`.

    New functions are normalised; otherwise the next builder would change a function that is a key in the module."""
    found = False
    for name, func in mod.functions.items():
        if isinstance(func, relax.Function):
            blocks = list(map(rewrite(func), func.body.blocks))
            if any(new is not old for new, old in zip(blocks, func.body.blocks, strict=True)):
                found = True
                builder.update_func(name, with_blocks(func, blocks))
    return relax.transform.Normalize()(builder.get()) if found else mod
