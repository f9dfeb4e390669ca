"""Operators: tensors that are computed together, with the inputs of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from deploykit.errors import UsageError
from deploykit.ragged.indices import Lengths
from deploykit.ragged.schedules import PARALLEL, Schedule
from deploykit.ragged.tensors import operands, producers
from deploykit.ragged.values import Load, OfIndex, Reduce, Tensor, walk


@dataclass(frozen=True, eq=False)
class Operator:
    """`deploykit.build(operator, ...)` makes an artifact of it. Its inputs are the tensors that its outputs are
    computed from, in the order in which they are first used, and then the lengths."""

    name: str
    outputs: tuple[Tensor, ...]
    schedules: tuple[Schedule, ...] = ()
    together: tuple[tuple[Tensor, ...], ...] = ()

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, each after its operands."""
        return tuple(producers(self.outputs))

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.value is None)

    @cached_property
    def lengths(self) -> tuple[Lengths, ...]:
        """All lengths, each after those that its dims depend on."""
        found: dict[Lengths, None] = {}

        def visit(lengths: Lengths) -> None:
            for dim in lengths.dims:
                for outer in dim.extent.lengths():
                    visit(outer)
            found[lengths] = None

        for tensor in self.tensors:
            parts = list(walk(tensor.value)) if tensor.value is not None else []
            dims = [*tensor.dims, *(dim for part in parts if isinstance(part, Reduce) for dim in part.dims)]
            indices = [dim.extent for dim in dims]
            indices += [index for part in parts if isinstance(part, Load) for index in part.indices]
            indices += [part.index for part in parts if isinstance(part, OfIndex)]
            for index in indices:
                for lengths in index.lengths():
                    visit(lengths)
        return tuple(found)


def operator(
    name: str,
    *outputs: Tensor,
    schedules: Sequence[Schedule] = (),
    together: Sequence[Sequence[Tensor]] = (),
) -> Operator:
    """An operator of one or several outputs.

    `schedules` say in which loops some of its tensors are computed; others get a schedule by default. Each group of
    tensors in `together` is computed in one parallel loop (*horizontal fusion*). They have schedules with a parallel
    loop, and do not depend on each other. Raises `UsageError` if they do, and if names clash."""
    if not outputs:
        raise UsageError(f"the operator '{name}' needs an output")
    made = Operator(name, outputs, tuple(schedules), tuple(map(tuple, together)))
    for output in outputs:
        if output.value is None:
            raise UsageError(f"the output '{output.name}' of '{name}' is an input")
    seen: set[str] = set()
    for used in (*(tensor.name for tensor in (*made.inputs, *outputs)), *(each.name for each in made.lengths)):
        if used in seen:
            raise UsageError(f"two inputs or outputs of '{name}' have the name '{used}'")
        seen.add(used)
    scheduled = [each.tensor for each in made.schedules]
    for tensor in scheduled:
        if tensor not in made.tensors or scheduled.count(tensor) > 1:
            raise UsageError(f"'{name}' does not compute '{tensor.name}', or it has several schedules")
    parallel = {each.tensor for each in made.schedules if PARALLEL in each.kinds.values()}
    grouped = [tensor for group in made.together for tensor in group]
    for tensor in grouped:
        if tensor not in parallel or grouped.count(tensor) > 1:
            raise UsageError(f"'{tensor.name}' cannot be computed together with others: it needs one parallel loop")
    _require_order(made)
    return made


def _require_order(made: Operator) -> None:
    """Raises `UsageError` if tensors that are computed together depend on each other."""
    done = set(made.inputs)
    groups = {tensor: group for group in made.together for tensor in group}
    waiting = list(dict.fromkeys(groups.get(each, (each,)) for each in made.tensors if each not in done))
    while waiting:
        ready = [group for group in waiting if all(operand in done for each in group for operand in operands(each))]
        if not ready:
            names = ", ".join(f"'{tensor.name}'" for group in waiting if len(group) > 1 for tensor in group)
            raise UsageError(f"{names} cannot be computed together: they depend on each other")
        waiting.remove(ready[0])
        done.update(ready[0])
