"""Orders bindings so that every dim is bound before it is used.

A kernel whose shape depends on a data dim does not read the tensor that the dim comes from. So a pass that only looks
at tensors may move the kernel in front of the `match_cast` that binds the dim. This pass moves such bindings back
behind it and otherwise keeps the order.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, relax

from deploykit.compiler.graph.bindings import with_blocks


def bind_dims_first(module: ir.IRModule) -> ir.IRModule:
    """`module`, with the bindings of every Relax function in a valid order."""
    functions = {
        gvar: _ordered(func) if isinstance(func, relax.Function) else func for gvar, func in module.functions.items()
    }
    return ir.IRModule(functions, attrs=module.attrs)


def _ordered(func: relax.Function) -> relax.Function:
    return with_blocks(func, [_ordered_block(block) for block in func.body.blocks])


def _ordered_block(block: relax.BindingBlock) -> relax.BindingBlock:
    waiting = [(binding, _used(binding)) for binding in block.bindings]
    missing = {var for binding in block.bindings for var in _defined(binding)}
    bindings: list[relax.Binding] = []
    while waiting:
        ready = next(i for i, (_, used) in enumerate(waiting) if not used & missing)
        binding, _ = waiting.pop(ready)
        missing -= _defined(binding)
        bindings.append(binding)
    return type(block)(bindings)


def _used(binding: relax.Binding) -> set[ir.Var]:
    used: list[ir.Var] = []
    tvm_ffi.structural_walk(binding.value, (ir.Var, used.append))
    return set(used)


def _defined(binding: relax.Binding) -> set[ir.Var]:
    """The variable of a binding, and the dims that a `match_cast` to a shape binds."""
    if isinstance(binding, relax.MatchCast) and isinstance(binding.ty, relax.ShapeType):
        return {binding.var, *binding.ty.values}
    return {binding.var}
