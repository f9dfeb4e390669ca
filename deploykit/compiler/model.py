"""`ImportedModel`: what every importer gives to the compiler, and the dims and ports of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tvm import ir, tirx

    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.mapped import MappedFile
    from deploykit.structure import Structure

DimBounds: TypeAlias = "Mapping[str, int | tuple[int, int | None]]"
"""By name of a symbolic dim: a size that pins it, or inclusive bounds (`None`: unbounded)."""


@dataclass(frozen=True)
class Dim:
    """A symbolic dim of the model's interface. `maximum` is None while unbounded.

    `capacity_of` names the tensor whose size nobody can bound before the run (a data-dependent size): such a dim
    is chosen by the caller and counts elements; the run fails with `DK_ERROR_CAPACITY` when more are needed.
    """

    name: str
    var: tirx.Var
    minimum: int = 1
    maximum: int | None = None
    capacity_of: str | None = None


@dataclass(frozen=True)
class Port:
    """One input or output of the model, as the user names it. `dtype` is logical: `float32`, `bfloat16`, `int4`
    (one element a byte), `bool`, ...; `shape` is over dims, and for outputs possibly over data dims."""

    name: str
    dtype: str
    shape: tuple[IntExpr, ...]


@dataclass(frozen=True)
class DataDim:
    """An integer that a run reads from a tensor, with inclusive bounds (`None`: unknown)."""

    var: tirx.Var
    minimum: IntExpr | None = None
    maximum: IntExpr | None = None


@dataclass(frozen=True)
class Requirement:
    """A condition over dims that must hold where `function` runs, the whole model, a branch or the body of a loop, e.g.
    two inputs that must broadcast. `{}` in `message` stand for `values`."""

    condition: ir.Expr
    message: str
    values: tuple[IntExpr, ...] = ()
    function: str = "main"


@dataclass(frozen=True)
class ImportedModel:
    """A model as Relax functions with named inputs, outputs and symbolic dims.

    `module["main"]` takes the inputs in order and returns the tuple of outputs; it holds its weights as constants.
    `inputs_as` and `outputs_as` say what the ports are to the user. Control flow is a `call_pure_packed` of
    `deploykit.if` or `deploykit.loop` with the functions of its branches or body (see
    `deploykit.compiler.operators.building.control_flow`).
    """

    name: str
    module: ir.IRModule
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    dims: tuple[Dim, ...]
    data_dims: tuple[DataDim, ...]
    requirements: tuple[Requirement, ...]
    notes: tuple[str, ...]
    inputs_as: tuple[Structure, ...]
    outputs_as: tuple[Structure, ...]
    reimport: Callable[[DimBounds], ImportedModel] = field(repr=False, compare=False)
    files: tuple[MappedFile, ...] = field(repr=False, compare=False)

    def with_dims(self, dims: DimBounds) -> ImportedModel:
        """The same model with dims pinned or bounded. Raises `UsageError` for a dim the model does not have."""
        return self.reimport(dims) if dims else self

    def require_unchanged(self) -> None:
        """Raises `UsageError` when a file that weights lie in has changed since the model was loaded."""
        for file in self.files:
            file.require_unchanged()
