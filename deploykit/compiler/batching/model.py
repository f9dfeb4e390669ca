"""`DynamicModel`, which importers of dynamic models produce, and `CellsModel`, its cells as a model to compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from deploykit.compiler.batching.cells import Cell, add_function, tables
from deploykit.compiler.batching.control import Control
from deploykit.compiler.batching.tables import Table
from deploykit.compiler.batching.techniques import ALL, Techniques
from deploykit.compiler.batching.tensors import Expression
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.compiler.operators.building.model import ModelBuilder
from deploykit.dynamic.types import Unions
from deploykit.errors import UsageError

BATCH, WORDS, ELEMENTS = DIMS = ("batch", "words", "elements")
"""The dims of `main`: the number of instances, of the words that hold them, and of the elements of tensors in them."""


@dataclass(frozen=True)
class DynamicModel:
    """The control flow of a model and its cells. `cell_names` has a name for each. `constants` are expressions
    over `weights`, whose values the control flow uses. `unions` are those of instances and results."""

    name: str
    control: Control
    cells: tuple[Cell, ...]
    cell_names: tuple[str, ...]
    constants: tuple[Expression, ...]
    unions: Unions
    weights: Mapping[str, np.ndarray] = field(repr=False)
    policy: str = "critical"
    """One of `deploykit.dynamic.policies.POLICIES`."""
    table: Table = field(default_factory=Table)
    """Of the policy `fsm`."""
    notes: tuple[str, ...] = ()
    """Notes for the user on what was chosen."""
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """Bounds of the dims of `main`, some of `DIMS`."""
    techniques: Techniques = ALL

    @cached_property
    def tables(self) -> tuple[list[np.ndarray] | None, ...]:
        """For each cell its results for each integer that it may take, if it is a look-up."""
        return tuple(tables(cell, self.weights) if self.techniques.tables else None for cell in self.cells)

    def shared(self, cell: Cell) -> bool:
        """Whether nodes of the cell with the same operand are one."""
        return self.techniques.sharing and cell.shareable


@dataclass(frozen=True)
class CellsModel(ImportedModel):
    """The cells of a dynamic model as functions. The program of this model has one more, which runs instances."""

    dynamic: DynamicModel = field(kw_only=True, repr=False, compare=False)


def cells_model(model: DynamicModel) -> CellsModel:
    """The cells as functions, in their order."""
    builder = ModelBuilder(model.name)
    for cell, name, known in zip(model.cells, model.cell_names, model.tables, strict=True):
        add_function(builder, f"cell_{name}", cell, known, model.weights, model.techniques)
    built = replace(builder.model(), notes=model.notes)
    return CellsModel(**{each.name: getattr(built, each.name) for each in fields(ImportedModel)}, dynamic=model)


def bounded(model: DynamicModel, bounds: DimBounds) -> DynamicModel:
    """The model with bounds of the dims of `main`. Raises `UsageError` for another dim."""
    unknown = sorted(bounds.keys() - set(DIMS))
    if unknown:
        raise UsageError(f"the model has no dim named {', '.join(unknown)}; its dims are: {', '.join(DIMS)}")
    pairs = {name: (given, given) if isinstance(given, int) else given for name, given in bounds.items()}
    return replace(model, bounds=pairs)
