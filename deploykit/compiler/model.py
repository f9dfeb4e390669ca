"""`ImportedModel`, which every importer produces for the compiler, and the dims and ports of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from deploykit.errors import UsageError

if TYPE_CHECKING:
    from tvm import ir, tirx

    from deploykit.artifact.streams import StreamEntry
    from deploykit.artifact.tasks import TaskEntry
    from deploykit.basics.mapped import MappedFile
    from deploykit.compiler.decisions import Declined
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.sessions.structure import Structure

DimBounds: TypeAlias = "Mapping[str, int | tuple[int, int | None]]"
"""For symbolic dims by name: a size that pins the dim, or inclusive bounds (`None`: unbounded)."""


@dataclass(frozen=True)
class Dim:
    """A symbolic dim of the model's interface. `maximum` is None if there is no maximum.

    `capacity_of` names a tensor whose size depends on data and has no bound. Such a dim is chosen by the caller and
    counts elements. The run fails with `DK_ERROR_CAPACITY` if it needs more.
    """

    name: str
    var: tirx.Var
    minimum: int = 1
    maximum: int | None = None
    capacity_of: str | None = None


@dataclass(frozen=True)
class Affine:
    """What quantised integers mean: `(integer - zero_point) * scale`."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Port:
    """One input or output of the model, as the user names it. `dtype` is logical: `float32`, `bfloat16`, `int4` (one
    element per byte), `bool`, ...; `shape` is over dims and, for outputs, possibly over data dims.

    A ragged port holds the instances of a batch one after the other, without padding. `instance` is the shape of one of
    them: a name stands for the input of that name, which has the extent of each instance. If only the first extent of
    an instance is such a name, `shape` is the sum of these extents and then the other extents; else it is flat.

    `quantization` is set for integers that the model dequantises, or has quantised, with a single scale."""

    name: str
    dtype: str
    shape: tuple[IntExpr, ...]
    instance: tuple[IntExpr | str, ...] | None = None
    quantization: Affine | None = None


@dataclass(frozen=True)
class Padded:
    """What the model had for a ragged dim before its conversion: a padded one.

    Ragged inputs had the shape [`batch`, `dim`, ...], where `dim` was at most `maximum` (None: unbounded). The inputs
    `masks`, which the converted model does not have, were 1 at the elements of an instance and 0 at padding. `lengths`
    is the input that took their place. `flops` is the number of operations of the padded model as a formula over its
    dims (`deploykit.compiler.cost.cost`), if it is known. `squares` is the name of the sum of the squared
    lengths in formulas for costs."""

    dim: str
    batch: str
    lengths: str
    masks: tuple[str, ...] = ()
    maximum: int | None = None
    flops: str | None = None
    squares: str = "squares"


@dataclass(frozen=True)
class Instances:
    """The instances of a ragged batch that do not depend on each other, so that a run may compute them in groups. The
    input `lengths` has the length of each one, which is at most `maximum` (None: unbounded). `batch` is the dim of
    their number, `tokens` that of the sum of their lengths. `group` is the most tokens of a group of several instances
    (`deploykit.compiler.ragged.groups`); None if they are not computed in groups."""

    lengths: str
    batch: tirx.Var
    tokens: tirx.Var
    maximum: int | None = None
    group: int | None = None


@dataclass(frozen=True)
class DataDim:
    """An integer that a run reads from a tensor, with inclusive bounds (`None`: unknown)."""

    var: tirx.Var
    minimum: IntExpr | None = None
    maximum: IntExpr | None = None


@dataclass(frozen=True)
class Requirement:
    """A condition over dims that must hold where `function` runs, which is the whole model, a branch or the body of a
    loop. For example, two inputs must broadcast. Each `{}` in `message` is replaced by one of `values`."""

    condition: ir.Expr
    message: str
    values: tuple[IntExpr, ...] = ()
    function: str = "main"


@dataclass(frozen=True)
class Signature:
    """How a function of a model is called. The function of that name in the model's module takes the inputs in order,
    then the `states`. It returns the tuple of the outputs and of the new values of the states `updated`. `inputs_as`
    and `outputs_as` say how the ports are structured for the user."""

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

    `functions` are the functions of `module` that a user calls. They share constants and `states`: tensors that keep
    their contents between runs, initially zeros. The sizes of states are over `state_dims`, which the caller chooses
    when it makes the memory; these dims have a `capacity_of` and are not dims of `functions`. Functions may call other
    functions without states. Control flow is a `call_pure_packed` of `deploykit.if` or `deploykit.loop`, with the
    functions of its branches or body (see `deploykit.compiler.operators.building.control_flow`). `padded` says how the
    model pads that was converted to this one; it then has one function, and `instances` are those of its batch, or says
    why they are computed together. `stream` says which frames a run of a stream takes. `task` says what a model with
    one function is for, if that is known, and `task_files` are the files that it names. `license` is what the model's
    file says of its licence: a name or a text."""

    name: str
    module: ir.IRModule
    functions: tuple[Signature, ...]
    data_dims: tuple[DataDim, ...]
    requirements: tuple[Requirement, ...]
    notes: tuple[str, ...]
    states: tuple[Port, ...] = ()
    state_dims: tuple[Dim, ...] = ()
    padded: tuple[Padded, ...] = ()
    instances: Instances | Declined | None = None
    stream: StreamEntry | None = None
    task: TaskEntry | None = None
    task_files: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    license: str | None = None
    files: tuple[MappedFile, ...] = field(default=(), repr=False, compare=False)

    @property
    def only(self) -> Signature:
        """The function of a model with a single function. Raises `UsageError` if there are several."""
        if len(self.functions) > 1:
            names = ", ".join(signature.name for signature in self.functions)
            raise UsageError(f"'{self.name}' has several functions: {names}")
        return self.functions[0]

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the only function."""
        return self.only.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the only function."""
        return self.only.outputs

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of the only function."""
        return self.only.dims

    def require_unchanged(self) -> None:
        """Raises `UsageError` if a file with weights has changed since the model was loaded."""
        for file in self.files:
            file.require_unchanged()
