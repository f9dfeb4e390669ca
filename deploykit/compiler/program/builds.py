"""What tells models that generate from each other, whatever they are built for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import tvm_ffi
from tvm import ir, relax

from deploykit.artifact.tasks import LanguageEntry
from deploykit.basics.mapped import pieces
from deploykit.compiler.constants import read
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.program.ir import Program


def with_build(
    programs: Sequence[Program], model: ImportedModel, *, fast_math: bool, precision: str
) -> tuple[Program, ...]:
    """The programs of a model, whose task has a checksum of its graph and weights, if it generates. What it remembers
    of a text means the same in all builds with this checksum, for any target and device. `fast_math` and `precision`
    are in it because they change results by more than rounding."""
    task = programs[0].task
    if not isinstance(task, LanguageEntry):
        return tuple(programs)
    graph = tvm_ffi.structural_hash(model.module, map_free_vars=True, skip_tensor_content=True)
    arithmetic = f"{fast_math}" if precision == "float32" else f"{fast_math} {precision}"
    digest = hashlib.sha256(f"{graph} {arithmetic}".encode())
    for state in model.states:
        digest.update(f"{state.name}: {state.dtype}{list(state.shape[1:])}".encode())
    for weight in _weights(model.module):
        with read(weight) as array:
            digest.update(f"{array.dtype}{array.shape}".encode())
            for _, piece in pieces(array.reshape(-1)):
                digest.update(piece.data)
    known = task.model_copy(update={"build": digest.hexdigest()})
    return tuple(replace(program, task=known) for program in programs)


def _weights(module: ir.IRModule) -> Iterator[relax.Constant]:
    """The constants of a model, in order."""
    found: dict[relax.Constant, None] = {}

    def visit(value: ir.Expr) -> None:
        if isinstance(value, ir.GenericConst):
            found.setdefault(value)

    for name in sorted(variable.name_hint for variable in module.get_global_vars()):
        if isinstance(module[name], relax.Function):
            relax.analysis.post_order_visit(module[name], visit)
    yield from found
