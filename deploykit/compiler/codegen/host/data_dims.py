"""Does every step read only data dims that a step before it has set?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deploykit.compiler.dims import free_vars
from deploykit.compiler.program.ir import (
    BindDim,
    Check,
    CheckIndices,
    Copy,
    CopySlice,
    If,
    Launch,
    Loop,
    Program,
    Reserve,
    SetDim,
    Step,
)

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


def require_order(program: Program) -> None:
    """Raises `ValueError`, naming the variable and the step, when one is read too early, or never set."""
    known = _after(program, program.steps, {dim.var for dim in program.dims})
    for port in program.outputs:
        _require(program, known, port.shape, f"the shape of output '{port.name}'")


def _after(program: Program, steps: Iterable[Step], known: set[Any]) -> set[Any]:
    """The variables known after `steps`, of which `known` are known before."""
    known = set(known)
    for step in steps:
        _require(program, known, _reads(program, step), str(step)[:200])
        match step:
            case BindDim() | SetDim():
                known.add(step.var)
            case If():
                known = _after(program, step.then, known) & _after(program, step.otherwise, known)
            case Loop():
                _after(program, step.body, known | {step.index})
                known |= {step.index, step.count}
            case _:
                pass
    return known


def _require(program: Program, known: set[Any], exprs: Iterable[IntExpr], where: str) -> None:
    for expr in exprs:
        for var in free_vars(expr):
            if var not in known:
                raise ValueError(f"program '{program.name}' reads '{var.name}' before any step sets it: {where}")


def _reads(program: Program, step: Step) -> Iterator[IntExpr]:
    match step:
        case BindDim():
            yield from (bound for bound in (step.minimum, step.maximum) if bound is not None)
        case SetDim():
            yield step.value
        case Check():
            yield from (step.condition, *step.values)
        case CheckIndices():
            yield from (bound for pair in step.bounds for bound in pair)
            yield from program.tensors[step.tensor].shape
        case Reserve():
            yield step.bytes_needed
            if step.bytes_available is not None:
                yield step.bytes_available
        case Launch():
            yield from step.scalars
        case Copy():
            yield from program.tensors[step.source].shape
        case CopySlice():
            yield from (step.row, *program.tensors[step.source].shape)
        case Loop() if step.trips is not None:
            yield step.trips
        case _:
            pass
