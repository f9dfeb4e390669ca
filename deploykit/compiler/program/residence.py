"""Tracks on which side tensors are in a program that runs partly on a GPU, and inserts the transfers that this needs.

Every tensor has the same place in the arena of the host and in the arena of the GPU. A value is on one side, or after a
transfer on both, until a step writes it again. Inputs begin on the host, constants are on both sides, states begin and
end on the GPU, and outputs end on the host. A launch runs where its kernel runs, and a copy where its source is. Dims
and conditions are read on the host, and indices are checked there. Where branches meet, and at both ends of a loop
body, each value is on the same sides. The tensors that the checks at the end of a program read come to the host
together with the outputs. A program with states ends with a wait, so that the GPU does what changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.program.ir import (
    BindDim,
    CheckIndices,
    ConstantStorage,
    Copy,
    CopySlice,
    If,
    InputStorage,
    Launch,
    Loop,
    OutputStorage,
    StateStorage,
    Step,
    Storage,
    Tensor,
    Transfer,
)
from deploykit.compiler.program.steps import reads_and_writes

HOST, GPU = False, True

State = dict[Storage, frozenset[bool]]
"""The sides on which the value of a place is; places that hold no value yet are missing."""


def with_transfers(
    steps: Sequence[Step], tensors: Sequence[Tensor], kernels: Sequence[Kernel], *, resident: bool = False
) -> list[Step]:
    """`steps` with a `Transfer` wherever a step needs a value from the other side, and with each copy assigned a
    side. `resident`: inputs begin on the GPU, and outputs may end there."""
    state: State = {}
    for tensor in tensors:
        if isinstance(tensor.storage, InputStorage):
            state[tensor.storage] = frozenset((GPU if resident else HOST,))
        elif isinstance(tensor.storage, ConstantStorage):
            state[tensor.storage] = frozenset((HOST, GPU))
        elif isinstance(tensor.storage, StateStorage):
            state[tensor.storage] = frozenset((GPU,))
    walker = _Walker(tensors, kernels)
    checks = list(reversed([*takewhile(lambda step: isinstance(step, CheckIndices), reversed(steps))]))
    result = walker.block(steps[: len(steps) - len(checks)], state)
    for check in checks:
        result += walker.fetched(reads_and_writes(check)[0], HOST, state)
    kept = {t.storage: i for i, t in enumerate(tensors) if isinstance(t.storage, StateStorage)}
    for place in kept:
        if GPU not in state[place]:
            result.append(Transfer((walker.last_written[place],), GPU))
    outputs = {} if resident else {t.storage: i for i, t in enumerate(tensors) if isinstance(t.storage, OutputStorage)}
    last_written = walker.last_written
    late = [last_written.get(s, i) for s, i in outputs.items() if HOST not in state.get(s, frozenset((HOST,)))]
    ends = [Transfer((index,), HOST) for index in late]
    ends += [Transfer((), HOST)] if kept and not resident else []
    return merged([*result, *ends, *checks])


class _Walker:
    def __init__(self, tensors: Sequence[Tensor], kernels: Sequence[Kernel]) -> None:
        self.tensors = tensors
        self.kernels = kernels
        self.last_written: dict[Storage, int] = {}
        """The tensor through which each place was last written."""

    def block(self, steps: Iterable[Step], state: State) -> list[Step]:
        """The steps with transfers. `state` is updated to the state after them."""
        result: list[Step] = []
        for step in steps:
            result += self.step(step, state)
        return result

    def step(self, step: Step, state: State) -> list[Step]:
        if isinstance(step, If):
            return self.branch(step, state)
        if isinstance(step, Loop):
            return self.loop(step, state)
        reads, writes = reads_and_writes(step)
        if not reads and not writes:
            return [step]
        side = self.side(step, state)
        if isinstance(step, CopySlice) and self.tensors[step.target].storage in state:
            reads = (*reads, step.target)
        moves = self.fetched(reads, side, state)
        for tensor in writes:
            state[self.tensors[tensor].storage] = frozenset((side,))
            self.last_written[self.tensors[tensor].storage] = tensor
        return [*moves, replace(step, gpu=side) if isinstance(step, Copy | CopySlice) else step]

    def side(self, step: Step, state: State) -> bool:
        """Where a step runs."""
        if isinstance(step, Launch):
            return self.kernels[step.kernel].gpu
        if isinstance(step, CopySlice):
            on_gpu = GPU in state[self.tensors[step.source].storage]
            return on_gpu and not step.where_room and self.whole_words(step)
        if isinstance(step, Copy):
            return HOST not in state[self.tensors[step.source].storage]
        assert isinstance(step, BindDim | CheckIndices)
        return HOST

    def whole_words(self, step: CopySlice) -> bool:
        return self.tensors[step.source].dtype.endswith(("32", "64"))

    def fetched(self, tensors: Iterable[int], side: bool, state: State) -> list[Step]:
        """Transfers to `side` of those `tensors` that are only on the other side."""
        moves: list[Step] = []
        for tensor in tensors:
            place = self.tensors[tensor].storage
            sides = state.get(place, frozenset((side,)))
            if side not in sides:
                moves.append(Transfer((self.last_written.get(place, tensor),), side))
                state[place] = sides | {side}
        return moves

    def branch(self, step: If, state: State) -> list[Step]:
        moves = self.fetched([step.condition], HOST, state)
        one, two = dict(state), dict(state)
        then, otherwise = self.block(step.then, one), self.block(step.otherwise, two)
        for place in {*one, *two}:
            if place not in one or place not in two:
                state[place] = one.get(place) or two[place]
                continue
            if not one[place] & two[place]:
                otherwise += self.fetched([self.tensor_at(place)], next(iter(one[place])), two)
            state[place] = one[place] & two[place]
        return [*moves, replace(step, then=tuple(then), otherwise=tuple(otherwise))]

    def tensor_at(self, place: Storage) -> int:
        if place in self.last_written:
            return self.last_written[place]
        return next(i for i, t in enumerate(self.tensors) if t.storage == place)

    def loop(self, step: Loop, state: State) -> list[Step]:
        moves = [] if step.condition is None else self.fetched([step.condition], HOST, state)
        before = dict(state)
        while True:
            inside = dict(before)
            body = self.block(step.body, inside)
            if step.condition is not None:
                body += self.fetched([step.condition], HOST, inside)
            shrunk = dict(before)
            for place, sides in before.items():
                if not sides & inside[place]:
                    body += self.fetched([self.tensor_at(place)], next(iter(sides)), inside)
                shrunk[place] = sides & inside[place]
            if shrunk == before:
                break
            before = shrunk
        state.clear()
        state.update(inside)
        state.update(before)
        return [*moves, replace(step, body=tuple(body))]


def merged(steps: Iterable[Step]) -> list[Step]:
    """The steps, with neighbouring transfers in the same direction merged into one."""
    result: list[Step] = []
    for step in steps:
        before = result[-1] if result else None
        if isinstance(step, Transfer) and isinstance(before, Transfer) and step.to_gpu == before.to_gpu:
            result[-1] = Transfer((*before.tensors, *step.tensors), step.to_gpu)
        elif isinstance(step, If):
            result.append(replace(step, then=tuple(merged(step.then)), otherwise=tuple(merged(step.otherwise))))
        elif isinstance(step, Loop):
            result.append(replace(step, body=tuple(merged(step.body))))
        else:
            result.append(step)
    return result
