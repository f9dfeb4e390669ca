"""What the C of a function's steps reads: variables in expressions, and tensors through pointers.

This is known before any text is written, so that the code declares exactly what it reads:

* a local for each dim and each data dim that is read;
* a pointer for each tensor that the host uses; a GPU is told places instead (`Scope.slice`);
* no code for a step that sets a data dim which nothing reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from deploykit.compiler.dims import free_vars
from deploykit.compiler.program.ir import (
    ArenaStorage,
    BindDim,
    Call,
    Check,
    CheckIndices,
    Copy,
    CopySlice,
    Function,
    InputStorage,
    Launch,
    Loop,
    OutputStorage,
    Program,
    Reserve,
    RunInstances,
    SetDim,
    StateStorage,
    Step,
    Storage,
    Transfer,
)
from deploykit.compiler.program.sizes import element_count, tensor_bytes
from deploykit.compiler.program.steps import number_steps, reads_and_writes

if TYPE_CHECKING:
    from tvm import tirx

    from deploykit.compiler.dims.expressions import IntExpr


def variables_in(exprs: Iterable[IntExpr]) -> set[tirx.Var]:
    """The variables of several expressions."""
    return {var for expr in exprs for var in free_vars(expr)}


def is_static(function: Function, exprs: Iterable[IntExpr]) -> bool:
    """Whether all of `exprs` are known as soon as the inputs' shapes are."""
    return variables_in(exprs) <= {dim.var for dim in function.dims}


class Reads:
    """What the steps of one function read."""

    def __init__(self, program: Program, function: Function) -> None:
        self.function = function
        self._program = program
        self._steps = [numbered.step for numbered in number_steps(function.steps)]
        reserved = {step.output for step in self._steps if isinstance(step, Reserve)}
        for step in self._steps:  # such a step checks that its outputs have room
            if isinstance(step, RunInstances):
                reserved |= set(range(len(function.outputs)))
        self._growing = frozenset(
            index
            for index, tensor in enumerate(function.tensors)
            if isinstance(tensor.storage, OutputStorage)
            and tensor.start is None
            and tensor.storage.index not in reserved
            and not is_static(function, tensor.shape)
        )

    def growing_outputs(self, step: Step) -> list[int]:
        """The outputs that a step writes and for which it checks itself that there is room: only the run can tell their
        size, and no `Reserve` checks it."""
        return [index for index in reads_and_writes(step)[1] if index in self._growing]

    @cached_property
    def variables(self) -> frozenset[tirx.Var]:
        """The variables that the code reads."""
        return self._read_by_steps | variables_in(self._offsets(self.tensors))

    @cached_property
    def tensors(self) -> frozenset[int]:
        """The tensors that the host uses."""
        return frozenset(index for step in self._steps if self.needs(step) for index in self._pointers(step))

    @cached_property
    def on_host(self) -> frozenset[int]:
        """The tensors that steps on the host read or write, other than transfers. What the host sends to the GPU is
        among them, unless it is an input."""
        steps = [step for step in self._steps if self.needs(step)]
        sent = {i for step in steps if isinstance(step, Transfer) and step.to_gpu for i in step.tensors}
        sent = {i for i in sent if not isinstance(self.function.tensors[i].storage, InputStorage)}
        return frozenset(i for step in steps if not isinstance(step, Transfer) for i in self._pointers(step)) | sent

    def needs(self, step: Step) -> bool:
        """Whether a step has any effect: it does more than set a data dim that nothing reads."""
        match step:
            case SetDim():
                return step.var in self._read_by_steps
            case BindDim():
                return _is_bounded(step) or step.var in self._read_by_steps
            case _:
                return True

    @cached_property
    def _read_by_steps(self) -> frozenset[tirx.Var]:
        """What the steps read, and what the shapes of the outputs read after them. The value of a data dim that nothing
        reads is not computed, so what it would read does not count."""
        read = variables_in(extent for port in self.function.outputs for extent in port.shape)
        values: dict[tirx.Var, set[tirx.Var]] = {}
        for step in self._steps:
            found = variables_in(self.expressions(step))
            match step:
                case SetDim():
                    values.setdefault(step.var, set()).update(found)
                    continue
                case BindDim() if _is_bounded(step):
                    read.add(step.var)
                case Loop():
                    read.add(step.index)
                case _:
                    pass
            read |= found
        waiting = list(read)
        while waiting:
            found = values.get(waiting.pop(), set()) - read
            read |= found
            waiting += found
        return frozenset(read)

    def expressions(self, step: Step) -> Iterator[IntExpr]:
        """The integer expressions in the C of a step itself, without the steps that it holds."""
        tensors = self.function.tensors
        places = self._slices(step)
        yield from (tensor_bytes(tensors[index]) for index in (*self.growing_outputs(step), *places))
        yield from self._offsets(places)
        starts = (tensors[index].start for index in self._pointers(step))
        yield from (start for start in starts if start is not None)
        if isinstance(step, RunInstances):
            given = (step.instances, step.roots, step.elements)
            yield from (extent for index in given if index is not None for extent in tensors[index].shape)
            yield from (step.words_dim, step.pool_dim)
            return
        match step:
            case BindDim():
                yield from (bound for bound in (step.index, step.minimum, step.maximum) if bound is not None)
            case SetDim():
                yield step.value
            case Check():
                yield from (step.condition, *step.values)
            case CheckIndices():
                yield from (bound for pair in step.bounds for bound in pair)
                yield element_count(tensors[step.tensor].shape)
            case Reserve():
                values = (step.bytes_needed, step.bytes_available, step.capacity)
                yield from (value for value in values if value is not None)
            case Launch():
                yield from step.scalars
            case Call():
                yield from step.dims
                yield from (tensor_bytes(tensors[index]) for index in (*step.inputs, *step.outputs))
            case Copy() | CopySlice():
                yield from self._copied(step)
            case Loop(trips=trips) if trips is not None:
                yield trips
            case _:
                pass

    def _copied(self, step: Copy | CopySlice) -> Iterator[IntExpr]:
        """The expressions of a copy."""
        size, storage = tensor_bytes(self.function.tensors[step.source]), self.function.tensors[step.target].storage
        if isinstance(step, Copy):
            yield from () if step.gpu else (size,)
            return
        yield from (size, step.row * size)
        if step.where_room and isinstance(storage, ArenaStorage):
            yield self.function.arena.slots[storage.slot].size

    def _on_gpu(self, step: Step) -> bool:
        if isinstance(step, Launch):
            return self._program.kernels[step.kernel].gpu
        return isinstance(step, Copy | CopySlice) and step.gpu

    def _pointers(self, step: Step) -> tuple[int, ...]:
        """The tensors whose pointers are in the C of a step itself."""
        if self._on_gpu(step):
            return ()
        read, written = reads_and_writes(step)
        if isinstance(step, RunInstances) and self._program.gpu is not None:
            read = tuple(index for index in read if index != step.shared)
        return read + written

    def _slices(self, step: Step) -> tuple[int, ...]:
        """The tensors whose places on the GPU are in the C of a step: of several at one place, the first."""
        if not self._on_gpu(step) and not isinstance(step, Transfer):
            return ()
        read, written = reads_and_writes(step)
        places: dict[Storage, int] = {}
        for index in read + written:
            places.setdefault(self.function.tensors[index].storage, index)
        return tuple(places.values())

    def _offsets(self, tensors: Iterable[int]) -> Iterator[IntExpr]:
        """Where tensors begin in the arena or in the states."""
        for index in tensors:
            match self.function.tensors[index].storage:
                case ArenaStorage(slot):
                    yield self.function.arena.slots[slot].offset
                case StateStorage(state):
                    yield self._program.states.offsets[state]
                case _:
                    pass


def _is_bounded(step: BindDim) -> bool:
    return step.minimum is not None or step.maximum is not None
