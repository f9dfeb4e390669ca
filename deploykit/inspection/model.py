"""Describes a model file: operators and counts, inputs and outputs, symbolic dims, weights, unsupported nodes, and the
cost of a run. A file that is not a model is an error; a model that cannot be compiled is still described.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from deploykit.artifact.manifest import DimEntry, PortEntry
from deploykit.basics.parallel import interruptible
from deploykit.compiler.codegen.host.interface import port_entry
from deploykit.compiler.cost import cost
from deploykit.compiler.dims import to_text
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.errors import Problem, UnsupportedModelError, defects
from deploykit.frontends.onnx import load_onnx
from deploykit.frontends.onnx.node import dtype_name
from deploykit.frontends.onnx.reader import read
from deploykit.frontends.onnx.registry import normalise_domain

if TYPE_CHECKING:
    from deploykit.compiler.model import Dim, DimBounds


@dataclass(frozen=True)
class ModelReport:
    """The description of a model file.

    `operators` counts each operator, including subgraphs and functions, the most frequent first. `flops` and `traffic`
    (bytes read and written, before fusion) are formulas over dims. If the model cannot be compiled, both are None,
    `problems` says why, and inputs and outputs are as the file declares them.
    """

    name: str
    opsets: Mapping[str, int]
    operators: Mapping[str, int]
    weights: int
    weight_bytes: int
    inputs: tuple[PortEntry, ...] = ()
    outputs: tuple[PortEntry, ...] = ()
    dims: tuple[DimEntry, ...] = ()
    flops: str | None = None
    traffic: str | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        return not self.problems


@interruptible
@defects("while the model is described")
def inspect_model(path: Path, dims: DimBounds | None = None) -> ModelReport:
    """Describe a model file, with dims pinned or bounded as for a build.

    Raises:
        UsageError: the file cannot be read, or it has no such dim.
        UnsupportedModelError: the file is not a model, or is damaged.
    """
    source = read(path)
    tensors = [value.const_value for value in source.graph.initializers.values() if value.const_value is not None]
    report = ModelReport(
        name=path.stem,
        opsets={domain or "ai.onnx": version for domain, version in source.opset_imports.items()},
        operators=_operators(source),
        weights=len(tensors),
        weight_bytes=sum(tensor.nbytes for tensor in tensors),
        inputs=tuple(_declared(v) for v in source.graph.inputs if v.name not in source.graph.initializers),
        outputs=tuple(_declared(v) for v in source.graph.outputs),
    )
    try:
        model = load_onnx(source, dims, name=path.stem)
    except UnsupportedModelError as error:
        if not error.problems:
            raise
        return replace(report, problems=error.problems)
    price = cost(model)
    return replace(
        report,
        inputs=tuple(port_entry(port, model.dims) for port in model.inputs),
        outputs=tuple(port_entry(port, model.dims) for port in model.outputs),
        dims=tuple(dim_entry(dim) for dim in model.dims),
        flops=to_text(price.flops),
        traffic=to_text(price.traffic),
        notes=model.notes,
    )


def _operators(model: ir.Model) -> dict[str, int]:
    counts: Counter[str] = Counter()
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    while graphs:
        for node in graphs.pop():
            domain = normalise_domain(node.domain)
            counts[f"{domain}.{node.op_type}" if domain else node.op_type] += 1
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    graphs.append(attribute.as_graph())
                elif attribute.type == ir.AttributeType.GRAPHS:
                    graphs.extend(attribute.as_graphs())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _declared(value: ir.Value) -> PortEntry:
    """An input or output as the file declares it."""
    shape = () if value.shape is None else value.shape
    extents = tuple(extent if isinstance(extent, int) else str(extent.value or "?") for extent in shape)
    try:
        dtype = dtype_name(value.dtype)
    except Unsupported:
        dtype = "unsupported"
    return PortEntry(name=value.name or "", dtype=dtype, shape=extents)


def dim_entry(dim: Dim) -> DimEntry:
    return DimEntry(name=dim.name, minimum=dim.minimum, maximum=dim.maximum, capacity_of=dim.capacity_of)
