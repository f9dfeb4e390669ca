"""`ImportedModel`: what every importer gives to the compiler, and the dims and ports of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from deploykit.errors import UsageError

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
class Signature:
    """How a function of a model is called. The function of that name in the model's module takes the inputs in order,
    then the `states`, and returns the tuple of the outputs and of the new values of the states `updated`. `inputs_as`
    and `outputs_as` say what the ports are to the user."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    dims: tuple[Dim, ...]
    inputs_as: tuple[Structure, ...]
    outputs_as: tuple[Structure, ...]
    states: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportedModel:
    """A model as Relax functions with named inputs, outputs and symbolic dims.

    `functions` are those of `module` that a user calls. They share constants, and `states`, tensors that keep their
    contents between runs, zeros at first; the sizes of these are over `state_dims`, which have a `capacity_of`, are
    chosen by the caller when the memory is made, and are no dims of `functions`. Functions may call those without
    states. Control flow is a `call_pure_packed` of `deploykit.if` or `deploykit.loop` with the functions of its
    branches or body (see `deploykit.compiler.operators.building.control_flow`).
    """

    name: str
    module: ir.IRModule
    functions: tuple[Signature, ...]
    data_dims: tuple[DataDim, ...]
    requirements: tuple[Requirement, ...]
    notes: tuple[str, ...]
    states: tuple[Port, ...] = ()
    state_dims: tuple[Dim, ...] = ()
    files: tuple[MappedFile, ...] = field(default=(), repr=False, compare=False)

    @property
    def only(self) -> Signature:
        """The function of a model that has one. Raises `UsageError` where there are several."""
        if len(self.functions) > 1:
            names = ", ".join(signature.name for signature in self.functions)
            raise UsageError(f"'{self.name}' has several functions: {names}")
        return self.functions[0]

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Those of the only function."""
        return self.only.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Those of the only function."""
        return self.only.outputs

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Those of the only function."""
        return self.only.dims

    def require_unchanged(self) -> None:
        """Raises `UsageError` when a file that weights lie in has changed since the model was loaded."""
        for file in self.files:
            file.require_unchanged()
