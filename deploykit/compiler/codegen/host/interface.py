"""The interface of a program as the manifest states it."""

from __future__ import annotations

from dataclasses import asdict
from math import prod
from typing import TYPE_CHECKING, Any

from tvm import tirx

from deploykit.artifact.manifest import (
    AffineEntry,
    CellEntry,
    ControlEntry,
    DimEntry,
    DynamicEntry,
    FunctionEntry,
    MemoryEntry,
    PaddedEntry,
    PortEntry,
    StatesEntry,
    VariantEntry,
)
from deploykit.compiler.batching.flow import stages, summaries
from deploykit.compiler.codegen.host.header import arena_bytes_at_bounds
from deploykit.compiler.codegen.host.scope import function_prefix, prefix_of
from deploykit.compiler.codegen.weights.blob import weights_bytes
from deploykit.compiler.dims import evaluate, free_vars, to_text
from deploykit.dynamic.signatures import fields_text
from deploykit.dynamic.types import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deploykit.compiler.batching.model import DynamicModel
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.model import Dim, Port
    from deploykit.compiler.program.ir import Function, Program, States


def describe(program: Program) -> dict[str, Any]:
    """The fields of `Manifest` that follow from the program alone. When there is one function, its fields are fields of
    the manifest itself."""
    weights = weights_bytes(program)
    fields: dict[str, Any] = {"name": program.name, "prefix": prefix_of(program), "notes": program.notes}
    if program.states.tensors:
        fields["states"] = states_entry(program.states)
    if program.padded:
        fields["padded"] = tuple(PaddedEntry(**asdict(padded)) for padded in program.padded)
    if program.stream is not None:
        fields["stream"] = program.stream
    if program.task is not None:
        fields["task"] = program.task
    if program.dynamic is not None:
        fields["dynamic"] = describe_dynamic(program.dynamic)
    if len(program.public) == 1:
        return _interface(program, program.public[0], weights) | fields
    functions = [
        FunctionEntry(name=own.name, states=own.states, **_interface(program, own, weights)) for own in program.public
    ]
    at_bounds = [entry.peak_memory.at_bounds for entry in functions]
    known = None if None in at_bounds else max(at for at in at_bounds if at is not None)
    formula = f"max({', '.join(entry.peak_memory.formula for entry in functions)})"
    memory = MemoryEntry(formula=formula, at_bounds=known, weights=weights)
    return fields | {"functions": tuple(functions), "inputs": (), "outputs": (), "dims": (), "peak_memory": memory}


def _interface(program: Program, function: Function, weights: int) -> dict[str, Any]:
    return {
        "prefix": function_prefix(program, function),
        "inputs": tuple(port_entry(port, function.dims) for port in function.inputs),
        "outputs": tuple(port_entry(port, function.dims) for port in function.outputs),
        "inputs_as": function.inputs_as,
        "outputs_as": function.outputs_as,
        "dims": tuple(map(dim_entry, function.dims)),
        "peak_memory": MemoryEntry(
            formula=to_text(function.arena.size), at_bounds=arena_bytes_at_bounds(function), weights=weights
        ),
    }


NODE_WORDS = 3
"""`DK_NODE_RESULTS`."""


def describe_dynamic(model: DynamicModel) -> DynamicEntry:
    """How a dynamic model is called."""
    names = model.cell_names
    return DynamicEntry(
        takes={name: str(kind) for name, kind in model.control.takes},
        gives=str(model.control.gives),
        unions={
            union: tuple(VariantEntry(name=each.name, fields=fields_text(each)) for each in variants)
            for union, variants in model.unions.items()
        },
        functions=tuple(
            ControlEntry(
                name=each.name,
                calls=each.calls,
                together=each.together,
                cells=tuple(names[cell] for cell in each.cells),
                waits=each.waits,
            )
            for each in summaries(model.control)
        ),
        cells=tuple(
            CellEntry(
                name=name,
                takes=tuple(str(Tensor(shape)) for shape in cell.operands),
                numbers=cell.numbers,
                gives=tuple(str(Tensor(shape)) for shape in cell.gives),
                words=NODE_WORDS + 2 * len(cell.gives) + len(cell.operands) + cell.numbers,
                elements=sum(map(prod, cell.gives)),
                written=sum(each.operators for each in cell.joined),
                operators=sum(each.operators > 0 for each in cell.joined),
                beside=sum(each.beside for each in cell.joined),
                gathered=sum(each.gathered for each in cell.joined),
                looked_up=table is not None,
                after=tuple(names[each] for each in stage.after),
                phase=stage.phase,
                depth=stage.depth,
            )
            for name, cell, table, stage in zip(
                names, model.cells, model.tables, stages(model.control, len(names)), strict=True
            )
        ),
        policy=model.policy,
    )


def states_entry(states: States) -> StatesEntry:
    return StatesEntry(
        tensors=tuple(port_entry(port, states.dims) for port in states.tensors),
        dims=tuple(map(dim_entry, states.dims)),
        formula=to_text(states.size),
    )


def dim_entry(dim: Dim) -> DimEntry:
    return DimEntry(name=dim.name, minimum=dim.minimum, maximum=dim.maximum, capacity_of=dim.capacity_of)


def port_entry(port: Port, dims: Sequence[Dim]) -> PortEntry:
    """A port. Its extents are numbers, names that the model gives to dims, or formulas over variables."""
    names = {dim.var: dim.name for dim in dims}
    shape = tuple(_extent(extent, names) for extent in port.shape)
    instance = port.instance and tuple(n if isinstance(n, str) else _extent(n, names) for n in port.instance)
    affine = None if port.quantization is None else AffineEntry(**asdict(port.quantization))
    return PortEntry(name=port.name, dtype=port.dtype, shape=shape, instance=instance, quantization=affine)


def _extent(extent: IntExpr, names: Mapping[tirx.Var, str]) -> int | str:
    if isinstance(extent, tirx.Var) and extent in names:
        return names[extent]
    return to_text(extent) if free_vars(extent) else evaluate(extent, {})
