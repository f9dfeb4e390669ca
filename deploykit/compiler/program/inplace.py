"""Results computed over their operand's memory.

A launch may write its result over an input when

* the kernel is elementwise in that input (`elementwise_inputs`);
* the input stands on memory of its own (not the caller's, not a constant) that no later step reads and no other operand
  of the launch stands on;
* both have the same number of elements of the same size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from deploykit.compiler.program.ir import Launch
from deploykit.compiler.program.steps import number_steps, reads_and_writes

if TYPE_CHECKING:
    from deploykit.compiler.program.trace import Trace


def elementwise_inputs(func: tirx.PrimFunc) -> tuple[int, ...]:
    """Positions, among the buffer params, of inputs that a kernel of one result reads only where it then writes.

    Holds for an unscheduled function whose blocks are all spatial and store at the identity index; an input qualifies
    when all its loads are at that index too."""
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, blocks.append))
    blocks = [b for b in blocks if b.name_hint != "root"]
    buffers = [p for p in func.params if tirx.is_buffer_var(p)]
    result = buffers[-1]
    excluded: set[tirx.Var] = set()
    for block in blocks:
        if block.init is not None or any(v.iter_type != tirx.IterVar.DataPar for v in block.iter_vars):
            return ()
        axes = [v.var for v in block.iter_vars]
        stores: list[tirx.BufferStore] = []
        loads: list[Any] = []
        tvm_ffi.structural_walk(block.body, [(tirx.BufferStore, stores.append), (ir.TensorLoad, loads.append)])
        if len(stores) != 1 or not _identity(stores[0].indices, axes):
            return ()
        excluded.update(load.source for load in loads if not _identity(load.indices, axes))
    ranks = len(result.shape)
    return tuple(
        i for i, b in enumerate(buffers[:-1]) if b not in excluded and len(b.shape) == ranks and result not in excluded
    )


def _identity(indices: Any, axes: list[tirx.Var]) -> bool:
    return len(indices) == len(axes) and all(i.same_as(a) for i, a in zip(indices, axes, strict=True))


def alias_in_place(trace: Trace, outputs: Mapping[int, int]) -> dict[int, int]:
    """Buffer -> the buffer whose memory it takes over. Only top-level launches are considered."""
    last_use: dict[int, int] = {}
    top: dict[int, int] = {}
    for numbered in number_steps(trace.steps):
        for tensor in (*reads_and_writes(numbered.step)[0], *reads_and_writes(numbered.step)[1]):
            last_use[trace.tensors[tensor].buffer] = numbered.number
        if numbered.depth == 0:
            top[id(numbered.step)] = numbered.number
    alias: dict[int, int] = {}
    for step in trace.steps:
        if not isinstance(step, Launch) or step.outputs != 1:
            continue
        inputs, written = reads_and_writes(step)
        target = trace.tensors[written[0]].buffer
        for position in () if target in outputs else trace.in_place[step.kernel]:
            source = trace.tensors[inputs[position]].buffer
            if last_use[source] == top[id(step)] and _may_take(trace, source, target, inputs, outputs):
                alias[target] = source
                break
    return alias


def _may_take(trace: Trace, source: int, target: int, inputs: tuple[int, ...], outputs: Mapping[int, int]) -> bool:
    a, b = trace.buffers[source], trace.buffers[target]
    if a.source[0] != "memory" or source in outputs:
        return False
    if np.dtype(a.dtype).itemsize != np.dtype(b.dtype).itemsize:
        return False
    if sum(trace.tensors[t].buffer == source for t in inputs) != 1:
        return False
    return a.elements == b.elements if isinstance(a.elements, int) else _same(a.elements, b.elements)


def _same(a: Any, b: Any) -> bool:
    return not isinstance(b, int) and bool(tvm_ffi.structural_equal(a, b, map_free_vars=False))
