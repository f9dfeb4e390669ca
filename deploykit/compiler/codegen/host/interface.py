"""The interface of a program as the manifest states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

from deploykit.artifact.manifest import DimEntry, MemoryEntry, PortEntry
from deploykit.compiler.codegen.host.source import arena_bytes_at_bounds, prefix_of
from deploykit.compiler.codegen.weights.blob import weights_bytes
from deploykit.compiler.dims import evaluate, free_vars, to_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.model import Dim, Port
    from deploykit.compiler.program.ir import Program


def describe(program: Program) -> dict[str, Any]:
    """The fields of `Manifest` that follow from the program alone."""
    return {
        "name": program.name,
        "prefix": prefix_of(program),
        "inputs": tuple(port_entry(port, program.dims) for port in program.inputs),
        "outputs": tuple(port_entry(port, program.dims) for port in program.outputs),
        "inputs_as": program.inputs_as,
        "outputs_as": program.outputs_as,
        "dims": tuple(
            DimEntry(name=dim.name, minimum=dim.minimum, maximum=dim.maximum, capacity_of=dim.capacity_of)
            for dim in program.dims
        ),
        "peak_memory": MemoryEntry(
            formula=to_text(program.arena.size),
            at_bounds=arena_bytes_at_bounds(program),
            weights=weights_bytes(program),
        ),
        "notes": program.notes,
    }


def port_entry(port: Port, dims: Sequence[Dim]) -> PortEntry:
    """A port whose extents are numbers, dims under the names that the model gives them, or formulas over variables."""
    names = {dim.var: dim.name for dim in dims}
    return PortEntry(name=port.name, dtype=port.dtype, shape=tuple(_extent(extent, names) for extent in port.shape))


def _extent(extent: IntExpr, names: Mapping[tirx.Var, str]) -> int | str:
    if isinstance(extent, tirx.Var) and extent in names:
        return names[extent]
    return to_text(extent) if free_vars(extent) else evaluate(extent, {})
