"""One program with kernels for several CPUs.

Programs of the same model share what does not depend on the CPU: the interface, the constants, where equal ones are
stored once, and an arena that is large enough for each, but for those on a GPU, which has memory of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from tvm import tirx

from deploykit.compiler.dims import simplify
from deploykit.compiler.program.ir import Arena, Constant, ConstantStorage, IntExpr, Program, Tensor
from deploykit.compiler.schedules.nest import substitute
from deploykit.errors import UsageError


def with_alternatives(program: Program, others: Sequence[Program]) -> Program:
    """`program` with `others` as alternatives. Raises `UsageError` when their dims differ, which some models' do whose
    sizes depend on data.
    """
    if not others:
        return program
    for other in others:
        if [dim.name for dim in other.dims] != [dim.name for dim in program.dims]:
            raise UsageError(
                f"'{program.name}' has other dims on {other.cpu} than on {program.cpu}: build it for one CPU"
            )
    alignment = max(part.alignment for part in (program, *others))
    constants: dict[tuple[str, bytes], Constant] = {}
    for part in (program, *others):
        for constant in part.constants:
            constants.setdefault(_identity(constant), constant)
    placed = dict(zip(constants, _placed(constants.values(), alignment), strict=True))
    index = {identity: position for position, identity in enumerate(placed)}
    size: IntExpr = program.arena.size
    for other in (other for other in others if not other.on_gpu):
        values = {own.var: dim.var for own, dim in zip(other.dims, program.dims, strict=True)}
        size = simplify(tirx.max(_expr(size), substitute(_expr(other.arena.size), values)))
    parts = [_with_constants(part, index, tuple(placed.values())) for part in (program, *others)]
    first, *rest = (part if part.on_gpu else replace(part, arena=Arena(part.arena.slots, size)) for part in parts)
    notes = dict.fromkeys(note for part in (program, *others) for note in part.notes)
    return replace(first, alternatives=tuple(rest), notes=tuple(notes))


def _identity(constant: Constant) -> tuple[str, bytes]:
    """Equal for constants with the same dtype and bytes; their shape belongs to the tensors."""
    return str(constant.data.dtype), hashlib.blake2b(np.ascontiguousarray(constant.data).tobytes()).digest()


def _placed(constants: Iterable[Constant], alignment: int) -> list[Constant]:
    offset, placed = 0, []
    for constant in constants:
        placed.append(replace(constant, offset=offset))
        offset += -(-max(constant.data.nbytes, 1) // alignment) * alignment
    return placed


def _with_constants(part: Program, index: dict[tuple[str, bytes], int], constants: tuple[Constant, ...]) -> Program:
    moved = [index[_identity(constant)] for constant in part.constants]

    def tensor(old: Tensor) -> Tensor:
        if not isinstance(old.storage, ConstantStorage):
            return old
        return replace(old, storage=ConstantStorage(moved[old.storage.index]))

    return replace(part, tensors=tuple(map(tensor, part.tensors)), constants=constants)


def _expr(size: IntExpr) -> tirx.Expr:
    return tirx.IntImm("int64", size) if isinstance(size, int) else size
