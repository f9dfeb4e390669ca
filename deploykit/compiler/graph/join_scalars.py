"""Joins the one-element constants that a kernel reads, because a shader has few bindings.

    kernel(x, 0.5, w, 2.0)    ->    kernel(x, [0.5, 2.0], w)

A chain of fused operators often has more scalars than all other tensors: scales, offsets, the bounds of a clip. As one
tensor of each dtype they take one binding, and calls of one kernel with other numbers still share its shader. Only
kernels that touch more tensors than a shader may bind change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.decisions import Decision, Note, unheard
from deploykit.compiler.graph.bindings import arguments_of, each_binding, operator_of, rewritten
from deploykit.compiler.tir.rewriting import Buffer, replace_loads

Positions = tuple[int, ...]
"""The operands of a call that become one tensor."""


@dataclass(frozen=True)
class _Place:
    """Where the number of an operand is: an element of a joined tensor."""

    joined: Buffer
    index: int

    @property
    def load(self) -> tirx.BufferLoad:
        return tirx.BufferLoad(self.joined, [self.index])

    @property
    def region(self) -> ir.TensorRegion:
        return tirx.BufferRegion(self.joined, [ir.Range.from_min_extent(self.index, 1)])


def join_scalars(mod: ir.IRModule, bindings: int, note: Note = unheard) -> ir.IRModule:
    """`mod`, in which kernels that touch more than `bindings` tensors take their one-element constants of each dtype as
    one tensor. Kernels must be fused."""
    builder = relax.BlockBuilder(mod)
    made: dict[tuple[ir.GlobalVar, tuple[Positions, ...]], ir.GlobalVar] = {}

    def binding(old: relax.Binding) -> relax.Binding:
        groups = _groups(mod, old, bindings)
        if not groups:
            return old
        kernel, arguments = old.value.args[0], arguments_of(old.value)
        if (kernel, groups) not in made:
            made[kernel, groups] = builder.add_func(_joined(mod[kernel], groups), f"{kernel.name_hint}_joined")
            count = sum(map(len, groups))
            note(Decision("join_scalars", kernel.name_hint, f"{count} numbers are elements of {len(groups)} tensors"))
        given = _replaced(arguments, groups, [_tensor([arguments[i] for i in group]) for group in groups])
        call = relax.Call(old.value.op, [made[kernel, groups], relax.Tuple(given)], ty_args=old.value.ty_args)
        return relax.VarBinding(old.var, call)

    return rewritten(mod, builder, lambda _: each_binding(binding))


def _groups(mod: ir.IRModule, binding: relax.Binding, bindings: int) -> tuple[Positions, ...]:
    """The operands of a kernel that become one tensor each time, if it touches more than `bindings` tensors."""
    if operator_of(binding.value) != "relax.call_tir":
        return ()
    if sum(map(tirx.is_buffer_var, mod[binding.value.args[0]].params)) <= bindings:
        return ()
    found: dict[str, list[int]] = {}
    for position, argument in enumerate(arguments_of(binding.value)):
        if isinstance(argument, ir.GenericConst) and array_of(argument).size == 1:
            found.setdefault(str(argument.ty.dtype), []).append(position)
    return tuple(tuple(group) for group in found.values() if len(group) > 1)


def _tensor(numbers: Sequence[ir.GenericConst]) -> ir.GenericConst:
    return constant(np.concatenate([array_of(number).reshape(1) for number in numbers]))


def _joined(func: tirx.PrimFunc, groups: Sequence[Positions]) -> tirx.PrimFunc:
    """`func`, with one parameter for each group of parameters."""
    params = list(func.params)
    joined = [tirx.decl_buffer([len(g)], str(params[g[0]].ty.dtype), params[g[0]].name, layout=None) for g in groups]
    places = {
        params[position]: _Place(buffer, index)
        for buffer, group in zip(joined, groups, strict=True)
        for index, position in enumerate(group)
    }

    def region(found: ir.TensorRegion) -> ir.TensorRegion:
        return places[found.source].region if found.source in places else found

    moved = replace_loads(func.body, lambda load: places[load.source].load if load.source in places else load)
    body = tvm_ffi.structural_map(moved, (ir.TensorRegion, region))
    return s_tir.renew_defs(tirx.PrimFunc(_replaced(params, groups, joined), body, func.ret_type, func.attrs))


def _replaced(operands: Sequence[object], groups: Sequence[Positions], joined: Sequence[object]) -> list[object]:
    """The operands, with a joined one where the first one of each group was, and without the others."""
    firsts = {group[0]: new for group, new in zip(groups, joined, strict=True)}
    gone = {position for group in groups for position in group[1:]}
    return [firsts.get(position, old) for position, old in enumerate(operands) if position not in gone]
