"""The programs of one model for several devices, and what they share.

Programs for CPUs share one memory: constants, of which equal ones are stored once, and an arena that is large enough
for each program. A GPU has memory of its own. Constants are ordered by the memories that need them, so that the
constants common to two memories are contiguous in both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from tvm import tirx

from deploykit.basics.mapped import pieces
from deploykit.compiler.dims import as_expr, simplify, substitute
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.program.assembly import laid_out
from deploykit.compiler.program.ir import Arena, Constant, ConstantStorage, Function, Program, Tensor

Identity: TypeAlias = "tuple[str, bytes]"
"""Equal for constants with the same dtype and bytes. The shape does not count, because it belongs to the tensors."""

_LITTLE = 100_000
"""Bytes of weights that are not worth a note."""


def joined(programs: Sequence[Program]) -> tuple[Program, ...]:
    """Programs of one interface, joined; their order stays. A capacity dim that one program needs becomes a dim of all,
    and the first program has the notes of all. What several functions or programs have in common is stored once."""
    if len(programs) == 1 and len(programs[0].functions) == 1:
        return tuple(programs)
    parts = _with_dims_of_all(programs)
    memories = _memories(parts)
    placed = _placed(parts, memories)
    for memory, places in zip(memories, placed, strict=True):
        stored = [_with_constants(parts[i], places) for i in memory]
        functions = zip(*(_with_arena_of_all(group) for group in _groups(stored)), strict=True)
        for i, part, own in zip(memory, stored, functions, strict=True):
            parts[i] = replace(part, functions=own)
    notes = dict.fromkeys([*(note for part in parts for note in part.notes), *_stored(programs, placed)])
    return (replace(parts[0], notes=tuple(notes)), *parts[1:])


def _memories(programs: Sequence[Program]) -> list[list[int]]:
    """The programs that share a memory, by their indices."""
    on_cpu = [i for i, program in enumerate(programs) if program.gpu is None]
    return [*([on_cpu] if on_cpu else []), *([i] for i, program in enumerate(programs) if program.gpu is not None)]


def _placed(programs: Sequence[Program], memories: Sequence[Sequence[int]]) -> list[dict[Identity, Constant]]:
    """The constants of each memory, in order. First come those that only the first memory needs, then those that it has
    in common with the second, and so on."""
    constants: dict[Identity, Constant] = {}
    needed: dict[Identity, list[int]] = {}
    for number, memory in enumerate(memories):
        for i in memory:
            for constant in programs[i].constants:
                identity = identity_of(constant)
                constants.setdefault(identity, constant)
                needed.setdefault(identity, []).append(number)
    order = sorted(constants, key=lambda identity: tuple(dict.fromkeys(needed[identity])))
    alignment = max(program.alignment for program in programs)
    return [
        dict(zip(own, laid_out([constants[i] for i in own], alignment), strict=True))
        for own in ([i for i in order if number in needed[i]] for number in range(len(memories)))
    ]


def _stored(programs: Sequence[Program], placed: Sequence[Mapping[Identity, Constant]]) -> Iterator[str]:
    """A note if clearly more weights are stored than any of the programs uses."""
    stored = {identity: constant.data.nbytes for memory in placed for identity, constant in memory.items()}
    total = sum(stored.values())
    most = max(sum(constant.data.nbytes for constant in program.constants) for program in programs)
    if total - most > max(_LITTLE, total // 20):
        yield (
            f"{total / 1e6:,.1f} MB of weights ship, because not all CPUs and GPUs take them in the same order; "
            f"each uses {most / 1e6:,.1f} MB of them at most"
        )


def identity_of(constant: Constant) -> Identity:
    """What equal constants have in common."""
    bits = np.ascontiguousarray(constant.data).reshape(-1).view(np.uint8)
    digest = hashlib.blake2b()
    for _, piece in pieces(bits):
        digest.update(piece.data)
    return str(constant.data.dtype), digest.digest()


def _with_constants(part: Program, placed: Mapping[Identity, Constant]) -> Program:
    """`part` with all of these constants, and its tensors pointing into them."""
    index = {identity: position for position, identity in enumerate(placed)}
    moved = [index[identity_of(constant)] for constant in part.constants]

    def tensor(old: Tensor) -> Tensor:
        if not isinstance(old.storage, ConstantStorage):
            return old
        return replace(old, storage=ConstantStorage(moved[old.storage.index]))

    functions = (replace(function, tensors=tuple(map(tensor, function.tensors))) for function in part.functions)
    return replace(part, functions=tuple(functions), constants=tuple(placed.values()))


def _groups(programs: Sequence[Program]) -> Iterator[tuple[Function, ...]]:
    """The groups of corresponding functions: for every function, the one of each program."""
    return zip(*(part.functions for part in programs), strict=True)


def _with_arena_of_all(functions: Sequence[Function]) -> list[Function]:
    """Functions with the same dims, each with an arena as large as the largest that one of them needs, over its own
    dims."""
    first, *others = functions
    size: IntExpr = first.arena.size
    for other in others:
        values = {own.var: dim.var for own, dim in zip(other.dims, first.dims, strict=True)}
        size = simplify(tirx.max(as_expr(size), as_expr(substitute(other.arena.size, values))))
    found = []
    for function in functions:
        own = {dim.var: own.var for dim, own in zip(first.dims, function.dims, strict=True)}
        found.append(replace(function, arena=Arena(function.arena.slots, simplify(substitute(size, own)))))
    return found


def _with_dims_of_all(programs: Sequence[Program]) -> list[Program]:
    """The programs, with the dims that any of them needs in each function. Each device determines anew which sizes
    depend on data, so capacity dims may differ; the dims of inputs come first everywhere."""

    def extended(group: Sequence[Function]) -> list[Function]:
        every = {dim.name: dim for function in group for dim in function.dims}
        own = [(every | {dim.name: dim for dim in function.dims}).values() for function in group]
        return [replace(function, dims=tuple(dims)) for function, dims in zip(group, own, strict=True)]

    functions = zip(*map(extended, _groups(programs)), strict=True)
    return [replace(part, functions=own) for part, own in zip(programs, functions, strict=True)]
