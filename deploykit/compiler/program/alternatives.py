"""One program with kernels for several CPUs.

Programs of the same model share what does not depend on the CPU: the interface, the constants, where equal ones are
stored once, and an arena that is large enough for each, but for those on a GPU, which has memory of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from tvm import tirx

from deploykit.compiler.dims import simplify
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.program.ir import Arena, Constant, ConstantStorage, Function, Program, Tensor
from deploykit.compiler.tir.rewriting import substitute


def with_alternatives(program: Program, others: Sequence[Program]) -> Program:
    """`program` with `others` as alternatives. A capacity that one of them needs is a dim of all."""
    if not others:
        return program
    program, *others = _with_dims_of_all((program, *others))
    if others[0].gpu:
        return _beside(program, others[0])
    constants: dict[tuple[str, bytes], Constant] = {}
    for part in (program, *others):
        for constant in part.constants:
            constants.setdefault(_identity(constant), constant)
    placed = dict(zip(constants, _placed(constants.values(), program.alignment), strict=True))
    parts = [_with_constants(part, placed) for part in (program, *others)]
    functions = zip(*(_with_arena_of_all(group) for group in _groups(parts)), strict=True)
    first, *rest = (replace(part, functions=own) for part, own in zip(parts, functions, strict=True))
    return _noted(first, rest)


def _groups(programs: Sequence[Program]) -> Iterator[tuple[Function, ...]]:
    """The same function in each of the programs, for every function."""
    return zip(*(part.functions for part in programs), strict=True)


def _with_arena_of_all(functions: Sequence[Function]) -> list[Function]:
    """Functions with the same dims, each with as much memory as any of them needs."""
    first, *others = functions
    size: IntExpr = first.arena.size
    for other in others:
        values = {own.var: dim.var for own, dim in zip(other.dims, first.dims, strict=True)}
        size = simplify(tirx.max(_expr(size), substitute(_expr(other.arena.size), values)))
    return [replace(function, arena=Arena(function.arena.slots, size)) for function in functions]


def _with_dims_of_all(programs: Sequence[Program]) -> list[Program]:
    """The dims of inputs come first everywhere; which sizes depend on data alone is found for each CPU anew."""

    def extended(group: Sequence[Function]) -> list[Function]:
        every = {dim.name: dim for function in group for dim in function.dims}
        own = [(every | {dim.name: dim for dim in function.dims}).values() for function in group]
        return [replace(function, dims=tuple(dims)) for function, dims in zip(group, own, strict=True)]

    functions = zip(*map(extended, _groups(programs)), strict=True)
    return [replace(part, functions=own) for part, own in zip(programs, functions, strict=True)]


def _beside(program: Program, gpu: Program) -> Program:
    """`program` with one for a GPU, which has weights and an arena of its own. The constants of both are at the end of
    those of `program` and at the beginning of the GPU's: so each side has a stretch of the three parts that are stored.
    """
    own = {_identity(constant): constant for constant in program.constants}
    its = {_identity(constant): constant for constant in gpu.constants}
    order = [i for i in own if i not in its] + [i for i in own if i in its] + [i for i in its if i not in own]
    placed = dict(zip(order, _placed([(own | its)[i] for i in order], gpu.alignment), strict=True))
    start = min((placed[i].offset for i in its), default=0)
    moved = {i: replace(placed[i], offset=placed[i].offset - start) for i in its}
    return _noted(_with_constants(program, placed, own), [_with_constants(gpu, moved, its)])


def _noted(program: Program, others: Sequence[Program]) -> Program:
    """`program` with its alternatives and the notes of all."""
    notes = dict.fromkeys(note for part in (program, *others) for note in part.notes)
    return replace(program, alternatives=tuple(others), notes=tuple(notes))


def _identity(constant: Constant) -> tuple[str, bytes]:
    """Equal for constants with the same dtype and bytes; their shape belongs to the tensors."""
    return str(constant.data.dtype), hashlib.blake2b(np.ascontiguousarray(constant.data).tobytes()).digest()


def _placed(constants: Iterable[Constant], alignment: int) -> list[Constant]:
    offset, placed = 0, []
    for constant in constants:
        placed.append(replace(constant, offset=offset))
        offset += -(-max(constant.data.nbytes, 1) // alignment) * alignment
    return placed


def _with_constants(
    part: Program, placed: Mapping[tuple[str, bytes], Constant], kept: Iterable[tuple[str, bytes]] | None = None
) -> Program:
    """`part` with its constants where `placed` has them; those that are `kept` (by default all) are its constants."""
    identities = list(placed if kept is None else kept)
    index = {identity: position for position, identity in enumerate(identities)}
    moved = [index[_identity(constant)] for constant in part.constants]

    def tensor(old: Tensor) -> Tensor:
        if not isinstance(old.storage, ConstantStorage):
            return old
        return replace(old, storage=ConstantStorage(moved[old.storage.index]))

    constants = tuple(placed[identity] for identity in identities)
    functions = (replace(function, tensors=tuple(map(tensor, function.tensors))) for function in part.functions)
    return replace(part, functions=tuple(functions), constants=constants)


def _expr(size: IntExpr) -> tirx.Expr:
    return tirx.IntImm("int64", size) if isinstance(size, int) else size
