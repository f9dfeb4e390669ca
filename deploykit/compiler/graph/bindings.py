"""Queries about the bindings of Relax functions, and how passes rewrite them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import tvm_ffi
from tvm import ir, relax

Rewrite = Callable[[relax.BindingBlock], relax.BindingBlock]
"""Returns a block that replaces the given one, or the same block if nothing changes."""


Node = TypeVar("Node")


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

    def operands(self, value: relax.Expr) -> list[relax.Var]:
        """The variables that `value` reads, wherever they stand in it."""
        found: list[ir.Var] = []
        tvm_ffi.structural_walk(value, (ir.Var, found.append))
        return [var for var in found if isinstance(var, relax.Var)]


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
            blocks, changed = _mapped(rewrite(func), func.body.blocks)
            if changed:
                found = True
                builder.update_func(name, with_blocks(func, blocks))
    return relax.transform.Normalize()(builder.get()) if found else mod


def each_binding(rewrite: Callable[[relax.Binding], relax.Binding]) -> Rewrite:
    """A rewrite of blocks that replaces each binding by what `rewrite` returns for it."""

    def block(old: relax.BindingBlock) -> relax.BindingBlock:
        bindings, changed = _mapped(rewrite, old.bindings)
        return type(old)(bindings) if changed else old

    return block


def _mapped(rewrite: Callable[[Node], Node], nodes: Iterable[Node]) -> tuple[list[Node], bool]:
    """What `rewrite` returns for each node, and whether any is another node than before. (Each access to a list of
    nodes makes new Python objects, so these are compared with the ones that were given.)"""
    old = list(nodes)
    new = [rewrite(node) for node in old]
    return new, any(a is not b for a, b in zip(new, old, strict=True))
