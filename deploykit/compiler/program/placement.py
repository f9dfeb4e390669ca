"""Decides where every buffer of a trace lives: in the caller's memory, the weights, a state, or the arena.

* A result with memory of its own is computed directly in the caller's output. A result whose memory is that of an
  input, a state, a constant or another output is copied at the end.
* The new value of a state replaces the old one after every step that can fail (`_assign_states`).
* A buffer lives from the first step that touches it to the last. A buffer that is touched both inside and outside a
  loop lives through the whole loop.
* A ragged batch whose instances do not depend on each other runs in groups (`groups`).
* A buffer whose size depends on data dims is planned with an upper bound over the model's dims. If there is no bound,
  the caller chooses a capacity, which is a further dim of the model, and the run checks the capacity before it writes
  the memory. A loop that ends by its condition keeps the rows that have room, and the check follows the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import tirx

from deploykit.compiler.dims import free_vars, simplify, symbolic_upper_bound
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import Dim, DimBounds, ImportedModel
from deploykit.compiler.program.arena import SlotRequest, plan
from deploykit.compiler.program.groups import Bounds, Grouped, in_groups
from deploykit.compiler.program.inplace import InPlace, alias_in_place, always_in_place, may_replace
from deploykit.compiler.program.ir import (
    ALIGNMENT,
    ArenaStorage,
    ConstantStorage,
    Copy,
    Function,
    InputStorage,
    OutputStorage,
    Reserve,
    StateStorage,
    Step,
    Storage,
    Tensor,
    Transfer,
)
from deploykit.compiler.program.lifetimes import lifetimes, root
from deploykit.compiler.program.residence import with_transfers
from deploykit.compiler.program.rewrite import with_reservations
from deploykit.compiler.program.steps import number_steps
from deploykit.compiler.program.trace import Trace
from deploykit.compiler.ragged.groups import groups_of
from deploykit.sessions.structure import Structure

CAPACITY = "capacity_"
"""The prefix of the names of capacity dims."""


def place(
    model: ImportedModel,
    trace: Trace,
    capacities: DimBounds,
    alignment: int = ALIGNMENT,
    in_place: InPlace = InPlace.WHERE_FREE,
    *,
    resident: bool = False,
) -> Function:
    """Give every buffer its place and the function its arena. `capacities` pins or bounds capacity dims by name;
    `alignment` is that of the start of a buffer, in bytes; `in_place` says which results take over an operand's
    memory; `resident`, whether inputs and outputs are on the GPU that runs the kernels."""
    signature, kernels = trace.signature, trace.pool.kernels
    outputs = _assign_outputs(trace)
    trace.steps.extend(trace.last)
    updated = _assign_states(model, trace, outputs, in_place)
    alias = alias_in_place(trace, outputs.keys() | updated.keys()) if in_place is InPlace.WHERE_FREE else {}
    if in_place is InPlace.ALWAYS:
        always_in_place(trace)
    grouped = _grouped(model, trace, outputs)
    alias = {target: source for target, source in alias.items() if source not in grouped.kept}
    spans = lifetimes(trace, alias)
    sizes = _Sizes(grouped.bounds, capacities)
    requests: list[SlotRequest] = []
    storages: dict[int, Storage] = {}
    for index, buffer in enumerate(trace.buffers):
        kind, position = buffer.source
        if kind == "input":
            storages[index] = InputStorage(position or 0)
        elif kind == "constant":
            storages[index] = ConstantStorage(position or 0)
        elif kind == "state":
            storages[index] = StateStorage(position or 0)
        elif index in outputs:
            storages[index] = OutputStorage(outputs[index])
        elif index in updated:
            storages[index] = StateStorage(updated[index])
        elif index not in alias and index in spans:
            first, last = spans[index]
            size = sizes.capacity(index, trace)
            storages[index] = ArenaStorage(len(requests))
            requests.append(SlotRequest(buffer.name, size, first, last))
    for index in alias:
        owner = root(alias, index)
        if owner in storages:
            storages[index] = storages[owner]
    states = bool(signature.states or signature.updated)
    dims = (*signature.dims, *(model.state_dims if states else ()), *sizes.dims)
    starts = {index: start for index, start in {**trace.starts, **grouped.starts}.items() if not _is_zero(start)}
    tensors = tuple(
        Tensor(t.name, t.dtype, t.shape, storages.get(t.buffer, ArenaStorage(0)), starts.get(index))
        for index, t in enumerate(trace.tensors)
    )
    steps = _with_reservations(trace, outputs, sizes, grouped.bounds)
    if any(kernel.gpu for kernel in kernels):
        steps = with_transfers(steps, tensors, kernels, resident=resident)
    numbering = _renumbering(trace.steps, steps)
    moved = [replace(r, first=numbering[r.first], last=numbering[r.last]) for r in requests]
    return Function(
        name=signature.name,
        dims=dims,
        inputs=signature.inputs,
        outputs=signature.outputs,
        tensors=tensors,
        steps=tuple(steps),
        arena=plan(moved, dims, alignment),
        inputs_as=_unless_plain(signature.inputs_as),
        outputs_as=_unless_plain(signature.outputs_as),
        states=states,
    )


def _grouped(model: ImportedModel, trace: Trace, outputs: Mapping[int, int]) -> Grouped:
    """Let `trace` run in groups if the model is to. `outputs` maps buffers to the outputs that they are."""
    bounds: Bounds = {dim.var: (dim.minimum, dim.maximum) for dim in model.data_dims}
    instances = groups_of(model)
    return Grouped({}, bounds, frozenset()) if instances is None else in_groups(trace, instances, outputs, bounds)


def _is_zero(value: IntExpr) -> bool:
    return isinstance(value, int) and value == 0


def _unless_plain(structures: tuple[Structure, ...]) -> tuple[Structure, ...]:
    return () if all(structure.kind == "tensor" for structure in structures) else structures


def _assign_outputs(trace: Trace) -> dict[int, int]:
    """Map each buffer to the output it is computed in. Copies of all other results are appended to the trace."""
    assigned: dict[int, int] = {}
    for position, tensor in enumerate(trace.results[: len(trace.signature.outputs)]):
        draft = trace.tensors[tensor]
        if trace.buffers[draft.buffer].source[0] == "memory" and draft.buffer not in assigned:
            assigned[draft.buffer] = position
            continue
        buffer = replace(trace.buffers[draft.buffer], name=f"output_{position}", source=("memory", None))
        trace.buffers.append(buffer)
        trace.tensors.append(replace(draft, buffer=len(trace.buffers) - 1))
        assigned[len(trace.buffers) - 1] = position
        trace.steps.append(Copy(len(trace.tensors) - 1, tensor))
        trace.results[position] = len(trace.tensors) - 1
    return assigned


def _assign_states(model: ImportedModel, trace: Trace, outputs: Mapping[int, int], in_place: InPlace) -> dict[int, int]:
    """Map each buffer to the state it is computed in. Copies of all other new values are appended to the trace.

    A state changes only after every step that can fail, so that a caller that lacks memory can run again. So a new
    value is computed directly in its state only if no later step can fail and nothing reads the old value any more. The
    kernel itself may read the old value if it may overwrite it. All other new values are copied at the end."""
    states = [port.name for port in model.states]
    updated = trace.signature.updated
    count = len(trace.signature.outputs)
    news = dict(zip(map(states.index, updated), trace.results[count : count + len(updated)], strict=True))
    buffers = {state: trace.tensors[tensor].buffer for state, tensor in news.items()}
    kept = {trace.buffers[buffer].source for buffer in buffers.values()}
    data = {dim.var for dim in model.data_dims}
    assigned: dict[int, int] = {}
    copied = []
    for state, tensor in news.items():
        buffer = buffers[state]
        taken = buffer in outputs or buffer in assigned or ("state", state) in kept
        if (
            taken
            or trace.buffers[buffer].source[0] != "memory"
            or in_place is not InPlace.WHERE_FREE
            or not may_replace(trace, buffer, ("state", state), data)
        ):
            copied.append((state, tensor))
        else:
            assigned[buffer] = state
            _drop_copy(trace, buffer, state)
    held = [_held(trace, tensor, news) for _, tensor in copied]
    for (state, _), source in zip(copied, held, strict=True):
        own = next((i for i, b in enumerate(trace.buffers) if b.source == ("state", state)), len(trace.buffers))
        if own == len(trace.buffers):
            trace.buffers.append(replace(trace.buffers[buffers[state]], source=("state", state)))
        target = replace(trace.tensors[source], name=f"{states[state]}_next", buffer=own)
        trace.tensors.append(target)
        trace.steps.append(Copy(len(trace.tensors) - 1, source))
    return assigned


def _drop_copy(trace: Trace, buffer: int, state: int) -> None:
    """Remove the copy of a state to the buffer that takes its place."""

    def copies(step: Step) -> bool:
        if not isinstance(step, Copy) or trace.tensors[step.target].buffer != buffer:
            return False
        return trace.buffers[trace.tensors[step.source].buffer].source == ("state", state)

    trace.steps[:] = [step for step in trace.steps if not copies(step)]


def _held(trace: Trace, tensor: int, states: Iterable[int]) -> int:
    """The tensor itself, or a copy of it if it is the old value of a state that gets a new value."""
    draft = trace.tensors[tensor]
    kind, state = trace.buffers[draft.buffer].source
    if kind != "state" or state not in tuple(states):
        return tensor
    trace.buffers.append(replace(trace.buffers[draft.buffer], name=f"{draft.name}_old", source=("memory", None)))
    trace.tensors.append(replace(draft, name=f"{draft.name}_old", buffer=len(trace.buffers) - 1))
    trace.steps.append(Copy(len(trace.tensors) - 1, tensor))
    return len(trace.tensors) - 1


@dataclass
class _Capacity:
    bytes: IntExpr
    dim: Dim | None


class _Sizes:
    """Byte sizes of buffers as expressions over the model's dims, and the capacity dims that these need."""

    def __init__(self, bounds: Mapping[tirx.Var, tuple[IntExpr | None, IntExpr | None]], capacities: DimBounds) -> None:
        self.bounds = bounds
        self.capacities = capacities
        self.dims: list[Dim] = []
        self.of_buffer: dict[int, _Capacity] = {}

    def capacity(self, index: int, trace: Trace) -> IntExpr:
        buffer = trace.buffers[index]
        item = np.dtype(buffer.dtype).itemsize
        if not any(v in self.bounds for v in free_vars(buffer.elements)):
            return simplify(buffer.elements * item)
        bound = symbolic_upper_bound(buffer.elements, self.bounds)
        if bound is not None:
            return simplify(bound * item)
        taken = {dim.name for dim in self.dims}
        own = f"{CAPACITY}{buffer.name}"
        name = next(
            name for name in itertools.chain([own], (f"{own}_{n}" for n in itertools.count(2))) if name not in taken
        )
        given = self.capacities.get(name, (1, None))
        minimum, maximum = (given, given) if isinstance(given, int) else given
        dim = Dim(name, tirx.Var(name, "int64"), minimum, maximum, buffer.name)
        self.dims.append(dim)
        self.of_buffer[index] = _Capacity(simplify(dim.var * item), dim)
        return self.of_buffer[index].bytes


def _with_reservations(
    trace: Trace,
    outputs: Mapping[int, int],
    sizes: _Sizes,
    data_dims: Mapping[tirx.Var, object],
) -> list[Step]:
    """The steps, with a `Reserve` for each buffer of a capacity dim and for each output whose size depends on data
    dims."""
    reservations: dict[int, Reserve] = {}
    for index, capacity in sizes.of_buffer.items():
        buffer = trace.buffers[index]
        needed = simplify(buffer.elements * np.dtype(buffer.dtype).itemsize)
        assert capacity.dim is not None
        reservations[index] = Reserve(buffer.name, needed, capacity.bytes, capacity=capacity.dim.var)
    for index, position in outputs.items():
        buffer = trace.buffers[index]
        if any(v in data_dims for v in free_vars(buffer.elements)):
            needed = simplify(buffer.elements * np.dtype(buffer.dtype).itemsize)
            reservations[index] = Reserve(buffer.name, needed, output=position)
    buffers = [t.buffer for t in trace.tensors]
    return with_reservations(trace.steps, reservations, buffers)


def _renumbering(old: Sequence[Step], new: Sequence[Step]) -> dict[int, int]:
    """The numbers of the old steps among the new ones. The new steps only have reservations and transfers added."""
    kept = [n.number for n in number_steps(new) if not isinstance(n.step, Reserve | Transfer)]
    return dict(zip((n.number for n in number_steps(old)), kept, strict=True))
