"""Does every step read only data dims that a step before it has set?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.host.reads import Reads
from deploykit.compiler.dims import free_vars
from deploykit.compiler.program.ir import BindDim, If, Loop, RunInstances, SetDim, Step

if TYPE_CHECKING:
    from tvm import tirx

    from deploykit.compiler.dims.expressions import IntExpr


def require_order(reads: Reads) -> None:
    """Raises `ValueError`, naming the variable and the step, when a variable is read too early, or never set."""
    function = reads.function
    known = _after(reads, function.steps, {dim.var for dim in function.dims})
    for port in function.outputs:
        _require(reads, known, port.shape, f"the shape of output '{port.name}'")


def _after(reads: Reads, steps: Iterable[Step], known: set[tirx.Var]) -> set[tirx.Var]:
    """The variables that are known after `steps`. `known` are known before."""
    known = set(known)
    for step in steps:
        _require(reads, known, reads.expressions(step), str(step)[:200])
        match step:
            case BindDim() | SetDim():
                known.add(step.var)
            case RunInstances():
                known |= {*(var for _, var in step.totals), step.traced}
            case If():
                known = _after(reads, step.then, known) & _after(reads, step.otherwise, known)
            case Loop():
                _after(reads, step.body, known | {step.index})
                known |= {step.index, step.count}
            case _:
                pass
    return known


def _require(reads: Reads, known: set[tirx.Var], exprs: Iterable[IntExpr], where: str) -> None:
    name = reads.function.name
    for expr in exprs:
        for var in free_vars(expr):
            if var not in known:
                raise ValueError(f"function '{name}' reads '{var.name}' before any step sets it: {where}")
