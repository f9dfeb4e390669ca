"""Does every step read only data dims that a step before it has set?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deploykit.compiler.dims import free_vars
from deploykit.compiler.program.ir import (
    BindDim,
    Call,
    Check,
    CheckIndices,
    Copy,
    CopySlice,
    Function,
    If,
    Launch,
    Loop,
    Reserve,
    SetDim,
    Step,
)

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


def require_order(function: Function) -> None:
    """Raises `ValueError`, naming the variable and the step, when one is read too early, or never set."""
    known = _after(function, function.steps, {dim.var for dim in function.dims})
    for port in function.outputs:
        _require(function, known, port.shape, f"the shape of output '{port.name}'")


def _after(function: Function, steps: Iterable[Step], known: set[Any]) -> set[Any]:
    """The variables known after `steps`, of which `known` are known before."""
    known = set(known)
    for step in steps:
        _require(function, known, _reads(function, step), str(step)[:200])
        match step:
            case BindDim() | SetDim():
                known.add(step.var)
            case If():
                known = _after(function, step.then, known) & _after(function, step.otherwise, known)
            case Loop():
                _after(function, step.body, known | {step.index})
                known |= {step.index, step.count}
            case _:
                pass
    return known


def _require(function: Function, known: set[Any], exprs: Iterable[IntExpr], where: str) -> None:
    for expr in exprs:
        for var in free_vars(expr):
            if var not in known:
                raise ValueError(f"function '{function.name}' reads '{var.name}' before any step sets it: {where}")


def _reads(function: Function, step: Step) -> Iterator[IntExpr]:
    match step:
        case BindDim():
            yield from (bound for bound in (step.minimum, step.maximum) if bound is not None)
        case SetDim():
            yield step.value
        case Check():
            yield from (step.condition, *step.values)
        case CheckIndices():
            yield from (bound for pair in step.bounds for bound in pair)
            yield from function.tensors[step.tensor].shape
        case Reserve():
            yield step.bytes_needed
            if step.bytes_available is not None:
                yield step.bytes_available
        case Launch():
            yield from step.scalars
        case Call():
            yield from step.dims
        case Copy():
            yield from function.tensors[step.source].shape
        case CopySlice():
            yield from (step.row, *function.tensors[step.source].shape)
        case Loop() if step.trips is not None:
            yield step.trips
        case _:
            pass
