"""A kernel as shaders: one a stage.

Declines what a shader cannot do, with the reason: imperative blocks, tensors of dtypes that a GPU does not have, stages
that touch more tensors than there are bindings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Views
from deploykit.compiler.schedules.driver import prepared
from deploykit.compiler.schedules.gpu.limits import Gpu
from deploykit.compiler.schedules.gpu.tile import tile
from deploykit.compiler.schedules.loops import collapsed, dtype_of, without_units
from deploykit.compiler.schedules.nest import Buffer, Nest, Opaque, Stage, collect, scalars_of, sequence, substitute
from deploykit.compiler.schedules.plain import plain


@dataclass(frozen=True)
class Part:
    """A stage as a function of its own. Its buffers are, in order, those it reads and those it writes; `operands` are
    their positions among the buffers of the kernel followed by its temporaries, the last `outputs` of them written.
    The variables of the kernel that it needs are integer parameters."""

    func: tirx.PrimFunc
    operands: tuple[int, ...]
    outputs: int


@dataclass(frozen=True)
class Divided:
    """A kernel as parts that run one after the other."""

    temporaries: tuple[Buffer, ...]
    parts: tuple[Part, ...]


def divide(func: tirx.PrimFunc, gpu: Gpu, *, tiled: bool = True) -> Divided | str:
    """`func` in parts, each with one parallel loop, or why it cannot run on `gpu`. Not `tiled`: an invocation for each
    element everywhere."""
    nest = prepared(func)
    if isinstance(nest, str):
        return nest
    parts: list[Part] = []
    for stage in nest.stages:
        if isinstance(stage, Opaque):
            return "it holds an imperative block"
        part = _part(nest, stage, gpu, tiled)
        if isinstance(part, str):
            return part
        parts.append(part)
    return Divided(nest.temporaries, tuple(parts))


def _part(nest: Nest, stage: Stage, gpu: Gpu, tiled: bool) -> Part | str:
    buffers = [param for param in nest.func.params if tirx.is_buffer_var(param)]
    known = [*buffers, *nest.temporaries]
    written = list(stage.outputs)
    touched = {*stage.touched, *written}
    if stage.epilogue is not None:
        # The reduced value stays in the invocation.
        touched -= {store.buffer for store in collect(stage.body, tirx.BufferStore)} - set(written)
    read = [buffer for buffer in known if buffer in touched and buffer not in written]
    operands = [*read, *written]
    if len(operands) > gpu.bindings:
        return f"it reads and writes {len(operands)} tensors at once, more than {gpu.bindings}"
    for buffer in operands:
        if dtype_of(buffer) not in gpu.dtypes:
            return f"it has tensors of {dtype_of(buffer)}"
    views = Views()
    body = tile(stage, views) if tiled else "not asked for"
    if isinstance(body, str):
        body = threads(stage)
    else:
        declared = [declaration for buffer in operands for declaration in views.declarations(buffer)]
        body = sequence([*declared, body])
    used = {*collect(body, ir.Var), *(var for b in operands for extent in b.shape for var in collect(extent, ir.Var))}
    scalars = [var for var in scalars_of(nest.func) if var in used]
    func = tirx.PrimFunc([*operands, *scalars], body)
    positions = [next(i for i, other in enumerate(known) if other.same_as(buffer)) for buffer in operands]
    return Part(func, tuple(positions), len(written))


def threads(stage: Stage) -> Any:
    """`stage` with an invocation for each element of its result."""
    axes, units = without_units(stage.axes)
    alone = replace(stage, axes=())
    body = substitute(sequence(plain(alone)), units)
    return collapsed(axes, body) if axes else body
