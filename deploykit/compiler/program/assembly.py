"""Builds a program from its functions and from the parts that they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tvm import ir, relax

from deploykit.basics.dtypes import logical_dtype
from deploykit.compiler.dims import simplify
from deploykit.compiler.program.ir import ALIGNMENT, Constant, Function, Program, States
from deploykit.compiler.program.sizes import element_count
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.compiler.devices.gpu import Gpu
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.model import ImportedModel, Signature
    from deploykit.compiler.program.trace import Pool


def callees_first(model: ImportedModel, module: ir.IRModule) -> Iterator[Signature]:
    """The functions of a model, each after the functions that it calls.

    Raises `ValueError` for functions that call each other in a circle."""
    left = {signature.name: signature for signature in model.functions}
    while left:
        ready = [name for name in left if not _called(module[name]) & left.keys()]
        if not ready:
            raise ValueError(f"the functions {', '.join(left)} call each other in a circle")
        yield from (left.pop(name) for name in ready)


def _called(function: relax.Function) -> set[str]:
    found: set[str] = set()

    def visit(node: object) -> None:
        if isinstance(node, relax.Call) and isinstance(node.op, ir.GlobalVar):
            found.add(node.op.name_hint)

    relax.analysis.post_order_visit(function, visit)
    return found


def assembled(
    model: ImportedModel, pool: Pool, functions: Mapping[str, Function], alignment: int, cpu: str, gpu: Gpu | None
) -> Program:
    """The program of all functions of a model; `functions` maps names to them, `pool` has what they share."""
    return Program(
        name=model.name,
        functions=tuple(functions[signature.name] for signature in model.functions),
        constants=tuple(laid_out(Constant(name, data, 0) for name, data in pool.constants)),
        kernels=tuple(pool.kernels),
        states=_states(model, alignment),
        alignment=alignment,
        notes=model.notes,
        cpu=cpu,
        gpu=gpu,
        padded=model.padded,
        stream=model.stream,
        task=model.task,
        task_files=model.task_files,
        license=model.license,
    )


def _states(model: ImportedModel, alignment: int) -> States:
    """The states, laid out one after the other."""
    offsets, end = [], cast("IntExpr", 0)
    for state in model.states:
        offsets.append(end)
        size = element_count(state.shape) * logical_dtype(state.dtype).storage.itemsize
        end = simplify(end + (size + (alignment - 1)) // alignment * alignment)
    return States(model.state_dims, model.states, tuple(offsets), end)


def laid_out(constants: Iterable[Constant], alignment: int = ALIGNMENT) -> list[Constant]:
    """The constants, laid out one after the other, each at a multiple of `alignment` bytes."""
    offset, placed = 0, []
    for constant in constants:
        placed.append(replace(constant, offset=offset))
        offset += -(-max(constant.data.nbytes, 1) // alignment) * alignment
    return placed


def require_capacities(program: Program, names: Iterable[str]) -> None:
    """Raises `UsageError` for a name that is not a capacity dim of the program."""
    dims = dict.fromkeys(dim for function in program.functions for dim in function.dims)
    own = [dim.name for dim in dims if dim.capacity_of is not None]
    unknown = sorted(set(names) - set(own))
    if unknown:
        known = ", ".join(own) or "none"
        raise UsageError(f"the model has no dim named {', '.join(unknown)}; its capacity dims are: {known}")
