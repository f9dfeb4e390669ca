"""Runs the steps of a trace once for each group of consecutive instances of a ragged batch.

    check lengths, ...                          on the whole batch, before anything is written
    groups, count = prelude_groups(lengths)
    loop group in 0..count
        bind first_instance, batch_of_group, first_token, tokens_of_group
        steps                                   on parts of inputs and outputs

So intermediate results have the size of a group. What does not depend on the batch is computed in front of the loop.
`ragged.conversion.separate` has proved that the results are those of one run over the whole batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from tvm import ir, tirx

from deploykit.compiler.dims import free_vars, simplify, substitute
from deploykit.compiler.program.ir import BindDim, CheckIndices, Copy, Launch, Loop, Step
from deploykit.compiler.program.sizes import element_count
from deploykit.compiler.program.steps import reads_and_writes

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.model import Instances, Port
    from deploykit.compiler.program.trace import Trace

Bounds: TypeAlias = "dict[tirx.Var, tuple[IntExpr | None, IntExpr | None]]"


@dataclass(frozen=True)
class Grouped:
    """What there is to know of a trace in groups. `starts`: where the tensors begin that are parts of inputs and
    outputs; `bounds`: those of all data dims; `kept`: the buffers that keep their contents from group to group."""

    starts: Mapping[int, IntExpr]
    bounds: Bounds
    kept: frozenset[int]


def in_groups(trace: Trace, instances: Instances, outputs: Mapping[int, int], bounds: Bounds) -> Grouped:
    """Change `trace`, whose last two results are the groups and their number (`compiler.ragged.groups`). `outputs` maps
    buffers to the outputs that they are, `bounds` has the bounds of the data dims."""
    *trace.results, rows, count = trace.results
    front, body = _Split(trace, rows, {instances.batch, instances.tokens}).steps()
    group = _Group(instances)
    ports = _ports(trace, outputs)
    shared = set(_tensors(front))
    kept = frozenset(trace.tensors[index].buffer for index in shared)
    renamed: dict[int, int] = {}
    starts: dict[int, IntExpr] = {}
    for index in dict.fromkeys(_tensors(body)):
        draft, buffer = trace.tensors[index], trace.buffers[trace.tensors[index].buffer]
        port = ports.get(draft.buffer)
        start = None if port is None else group.start(port)
        shape = tuple(substitute(extent, group.sizes) for extent in draft.shape)
        if index in shared and (start is not None or group.changes(draft.shape)):
            renamed[index] = len(trace.tensors)
            trace.tensors.append(replace(draft, name=f"{draft.name}_of_group", shape=shape))
        else:
            draft.shape = shape
        if start is not None:
            starts[renamed.get(index, index)] = start
        elif draft.buffer not in kept:
            buffer.elements = substitute(buffer.elements, group.sizes)
    number, turn, done = (tirx.Var(name, "int64") for name in ("groups", "group", "groups_done"))
    binds = [BindDim(var, rows, turn * len(group.fields) + field) for field, var in enumerate(group.fields)]
    steps = [_on_group(step, renamed, group.sizes) for step in body]
    trace.steps[:] = [*front, BindDim(number, count), Loop(turn, number, None, (*binds, *steps), done)]
    inner = {var: (group.over(low), group.over(high)) for var, (low, high) in bounds.items()}
    return Grouped(starts, group.bounds | {number: (0, instances.batch)} | inner, kept)


def _tensors(steps: Iterable[Step]) -> Iterator[int]:
    """The tensors that steps read and write."""
    for step in steps:
        for tensors in reads_and_writes(step):
            yield from tensors


def _ports(trace: Trace, outputs: Mapping[int, int]) -> dict[int, Port]:
    """The inputs and outputs that buffers are."""
    inputs = {i: b.source[1] for i, b in enumerate(trace.buffers) if b.source[0] == "input"}
    found = {buffer: trace.signature.inputs[position or 0] for buffer, position in inputs.items()}
    return found | {buffer: trace.signature.outputs[position] for buffer, position in outputs.items()}


class _Group:
    """The dims of a group. `fields` are the four numbers of a group, in order."""

    def __init__(self, instances: Instances) -> None:
        batch, tokens, self.instances = instances.batch, instances.tokens, instances
        names = ("first_instance", f"{batch.name}_of_group", "first_token", f"{tokens.name}_of_group")
        self.fields = tuple(tirx.Var(name, "int64") for name in names)
        first, size, token, length = self.fields
        self.sizes: dict[tirx.Var, IntExpr] = {batch: size, tokens: length}
        self.firsts = {batch: first, tokens: token}
        most: IntExpr = tokens
        if instances.maximum is not None:
            most = tirx.min(tokens, tirx.const(max(instances.group or 0, instances.maximum), "int64"))
        self.bounds: Bounds = {first: (0, batch), size: (0, batch), token: (0, tokens), length: (0, most)}

    def changes(self, exprs: Iterable[IntExpr]) -> bool:
        """Whether expressions have another value for a group than for the whole batch."""
        return any(var in self.sizes for value in exprs for var in free_vars(value))

    def over(self, value: IntExpr | None) -> IntExpr | None:
        """The value of an expression for a group."""
        return None if value is None else substitute(value, self.sizes)

    def start(self, port: Port) -> IntExpr | None:
        """The first element of a group in an input or output; None if this does not depend on the group."""
        extent = port.shape[0] if port.shape else 1
        first = self.firsts.get(extent) if isinstance(extent, tirx.Var) else None
        return None if first is None else simplify(first * element_count(port.shape[1:]))


class _Split:
    """Splits the steps of a trace into those in front of the loop and those in it. `rows` are the groups, `dims` those
    of the batch."""

    def __init__(self, trace: Trace, rows: int, dims: set[tirx.Var]) -> None:
        self.trace, self.dims = trace, dims
        self.rows = trace.tensors[rows].buffer
        self.data = {step.var for step in trace.steps if isinstance(step, BindDim)}
        self.makers = {buffer: step for step in trace.steps for buffer in self.buffers(reads_and_writes(step)[1])}

    def steps(self) -> tuple[list[Step], list[Step]]:
        checks = [step for step in self.trace.steps if isinstance(step, CheckIndices) and self.comes_first(step)]
        first = {id(step) for step in (self.makers[self.rows], *checks)}
        made = {id(self.makers.get(self.trace.tensors[check.tensor].buffer)) for check in checks}
        front: list[Step] = []
        body: list[Step] = []
        changing, written = set(self.dims), set[int]()
        for step in self.trace.steps:
            reads, writes = map(self.buffers, reads_and_writes(step))
            changes = not changing.isdisjoint(self.variables(step)) or not written.isdisjoint(reads)
            if changes:
                written |= writes
                changing |= {step.var} if isinstance(step, BindDim) else set()
            if not changes or id(step) in first | made:
                front.append(step)
            if changes and id(step) not in first:
                body.append(step)
        return front, body

    def comes_first(self, check: CheckIndices) -> bool:
        """Whether a check is of the whole batch: of an input, or of what a kernel computes from inputs alone, such as
        the sum of the lengths."""
        if self.data.intersection(self.variables(check)):
            return False
        buffer = self.trace.tensors[check.tensor].buffer
        maker = self.makers.get(buffer)
        read = {buffer} if maker is None else self.buffers(reads_and_writes(maker)[0])
        return all(self.trace.buffers[index].source[0] == "input" for index in read)

    def buffers(self, tensors: Iterable[int]) -> set[int]:
        return {self.trace.tensors[index].buffer for index in tensors}

    def variables(self, step: Step) -> set[tirx.Var]:
        """The variables that the sizes and the numbers of a step depend on."""
        values: Collection[IntExpr | ir.Expr | None] = ()
        match step:
            case Launch():
                values = step.scalars
            case CheckIndices():
                values = [bound for pair in step.bounds for bound in pair]
            case BindDim():
                values = (step.minimum, step.maximum)
            case _:
                pass
        shapes = [extent for index in _tensors([step]) for extent in self.trace.tensors[index].shape]
        return {var for value in (*values, *shapes) if value is not None for var in free_vars(value)}


def _on_group(step: Step, tensors: Mapping[int, int], sizes: Mapping[tirx.Var, IntExpr]) -> Step:
    """A step for a group. `tensors` are those that take the place of others."""

    def tensor(index: int) -> int:
        return tensors.get(index, index)

    def over(value: IntExpr | None) -> IntExpr | None:
        return None if value is None else substitute(value, sizes)

    match step:
        case Launch():
            scalars = tuple(substitute(value, sizes) for value in step.scalars)
            return replace(step, tensors=tuple(map(tensor, step.tensors)), scalars=scalars, per_run=True)
        case Copy():
            return replace(step, target=tensor(step.target), source=tensor(step.source))
        case CheckIndices():
            bounds = tuple((substitute(low, sizes), substitute(high, sizes)) for low, high in step.bounds)
            return replace(step, tensor=tensor(step.tensor), bounds=bounds)
        case BindDim():
            return replace(step, tensor=tensor(step.tensor), minimum=over(step.minimum), maximum=over(step.maximum))
        case _:
            raise ValueError(f"a {type(step).__name__} cannot be part of a group")
