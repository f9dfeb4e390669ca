"""`Program`: the interface between the compiler and what ships.

A program holds functions that share its kernels, constants and states. A function is a list of destination-passing
steps over tensors, whose shapes are integer expressions over symbolic dims. It contains nothing of TVM's runtime and
nothing that is specific to a target: the emitters turn it into C host code and kernels. Integer expressions are
`tvm.ir.Expr` of dtype int64, or plain `int` where static.

Two kinds of integer variable occur in expressions:

* `Dim`: has bounds and is known to the caller. It is bound from the shapes of the inputs when a run starts; a dim of
  states is chosen by the caller.
* data dim: a `BindDim` step binds it during the run from the contents of an integer tensor (`NonZero`, a `Reshape`
  whose target shape is computed, ...). The arena cannot depend on data dims, so the slot of a tensor whose size does
  has a capacity, an expression over `Dim`s only, that bounds this size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.lowering.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from tvm import ir, tirx

    from deploykit.artifact.streams import StreamEntry
    from deploykit.artifact.tasks import TaskEntry
    from deploykit.compiler.batching.model import DynamicModel
    from deploykit.compiler.devices.gpu import Gpu
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.model import Dim, Padded, Port
    from deploykit.sessions.structure import Structure

ALIGNMENT = 64
"""Bytes. Every arena tensor and every constant starts at a multiple of this."""


@dataclass(frozen=True)
class InputStorage:
    """The caller's memory, `index` into `Function.inputs`."""

    index: int


@dataclass(frozen=True)
class OutputStorage:
    """The caller's memory, `index` into `Function.outputs`."""

    index: int


@dataclass(frozen=True)
class ConstantStorage:
    """`index` into `Program.constants`; read only."""

    index: int


@dataclass(frozen=True)
class StateStorage:
    """Memory of the caller that keeps its contents between runs, `index` into `Program.states`."""

    index: int


@dataclass(frozen=True)
class ArenaStorage:
    """Memory of the arena. `slot` is an index into `Function.arena.slots`; tensors that share a slot alias
    (views, in-place results)."""

    slot: int


Storage: TypeAlias = InputStorage | OutputStorage | ConstantStorage | StateStorage | ArenaStorage


@dataclass(frozen=True)
class Tensor:
    """A dense row-major tensor. `dtype` is the *storage* dtype, a C-like name (`float32`, `int64`, `bool`, `float16`,
    `uint8`, ...); `Port` has the logical dtype of the interface (`bfloat16`, `int4`, ...). A part of an input, of an
    output or of a slot begins at its element `start`, an expression over dims, data dims and indices of loops. A GPU
    has no such tensors."""

    name: str
    dtype: str
    shape: tuple[IntExpr, ...]
    storage: Storage
    start: IntExpr | None = None


@dataclass(frozen=True)
class Constant:
    """Data folded and packed at build time. `offset` is its position in `weights.bin`, a multiple of `ALIGNMENT`
    bytes."""

    name: str
    data: np.ndarray
    offset: int


@dataclass(frozen=True)
class Slot:
    """A range of the arena. `size` and `offset` are in bytes, expressions over dims (never over data dims). It is live
    from step `first` to step `last` inclusive, as numbered by `number_steps`."""

    name: str
    size: IntExpr
    offset: IntExpr
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    slots: tuple[Slot, ...]
    size: IntExpr
    """Bytes needed for given dims: the maximum over slots of offset + size."""


@dataclass(frozen=True)
class BindDim:
    """`var := tensor[index]` of an integer tensor; then check `minimum <= var <= maximum` where these are given."""

    var: tirx.Var
    tensor: int
    index: IntExpr = 0
    minimum: IntExpr | None = None
    maximum: IntExpr | None = None


@dataclass(frozen=True)
class SetDim:
    """`var := value`."""

    var: tirx.Var
    value: IntExpr


@dataclass(frozen=True)
class Check:
    """Fail with `DK_ERROR_SHAPE` and `message` unless the boolean expression `condition` holds. Each `{}` in the
    message is replaced by the next of `values`."""

    condition: ir.Expr
    message: str
    values: tuple[IntExpr, ...] = ()


@dataclass(frozen=True)
class CheckIndices:
    """Fail with `DK_ERROR_DATA` unless every element `i` of an integer tensor lies within `bounds[i % len(bounds)]`,
    both ends included. The error names `what`, the element and its bounds."""

    tensor: int
    bounds: tuple[tuple[IntExpr, IntExpr], ...]
    what: str


@dataclass(frozen=True)
class Reserve:
    """Fail with `DK_ERROR_CAPACITY`, naming `what`, unless `bytes_needed <= bytes_available`. Guards arena tensors and
    outputs whose size depends on data dims. For an output, `output` is its index, and the caller's buffer gives the
    space that is available."""

    what: str
    bytes_needed: IntExpr
    bytes_available: IntExpr | None = None
    output: int | None = None
    capacity: tirx.Var | None = None


@dataclass(frozen=True)
class Launch:
    """Call a kernel. `kernel` is an index into `Program.kernels`; `tensors` are indices into `Function.tensors`:
    inputs, then outputs, then workspaces; `scalars` are integers."""

    kernel: int
    tensors: tuple[int, ...]
    scalars: tuple[IntExpr, ...]
    outputs: int = 1
    """The number of outputs: the tensors just before the `workspaces` last ones."""
    workspaces: int = 0
    flops: IntExpr | None = None
    """Arithmetic operations of the call, if known."""
    traffic: IntExpr | None = None
    """Bytes that the call reads and writes, if known."""
    per_run: bool = False
    """Whether `flops` and `traffic` are those of all calls in a loop over groups together."""


@dataclass(frozen=True)
class Copy:
    """Copy all bytes of tensor `source` to tensor `target`, which has the same dtype and element count. The copy runs
    on the GPU if `gpu`, else on the host."""

    target: int
    source: int
    gpu: bool = False


@dataclass(frozen=True)
class CopySlice:
    """Copy all bytes of `source` to row `row` of `target` (`target.shape == (rows, *source.shape)`). `where_room`: copy
    only where the target has room for the row. How many rows there are is known after the loop, where a `Reserve`
    checks that all of them had room."""

    target: int
    source: int
    row: IntExpr
    gpu: bool = False
    where_room: bool = False


@dataclass(frozen=True)
class Transfer:
    """Copy tensors from the host to the GPU or back. Each has the same place on both sides. One to the host, also of no
    tensors, waits until the GPU has done all that it was told."""

    tensors: tuple[int, ...]
    to_gpu: bool


@dataclass(frozen=True)
class If:
    """Run `then` when the boolean scalar tensor `condition` is true, else `otherwise`."""

    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True)
class Loop:
    """`for (index = 0; index < trips; ++index) body`, leaving before an iteration when the boolean scalar tensor
    `condition` (if any) is false. `count` is set to the number of iterations done."""

    index: tirx.Var
    trips: IntExpr | None
    condition: int | None
    body: tuple[Step, ...]
    count: tirx.Var


@dataclass(frozen=True)
class Call:
    """Run the function of that name on the host. `inputs`, `outputs` and `arena` are tensors of the caller; `dims` are
    the values of the callee's dims, in its order."""

    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arena: int
    dims: tuple[IntExpr, ...]


@dataclass(frozen=True)
class RunInstances:
    """Run the control flow of a dynamic model for each instance, and its cells in batches.

    `cells` are functions of the program, in the order of the cells of the model; their dims are `nodes` and, if they
    read tensors, `elements`. The tensors: `instances` and `roots` (`runtime/batching/instances.h`), `elements` of
    tensors within instances, `policy` with a number of `dk_policy`, `shared` with the elements of the values that are
    the same in every run. `words` and `pool` are memory, sized by the capacity dims of these names. `launches` receives
    the number of launches of each cell, `outputs` the results. The lengths of lists are outputs, too; `totals` are the
    data dims that count the items of all of them, by the index of the output that holds the items. `trace` receives
    what is traced of each of the `traced` nodes (`DK_TRACED`)."""

    model: DynamicModel
    cells: tuple[str, ...]
    instances: int
    roots: int
    elements: int | None
    policy: int
    shared: int | None
    words: int
    pool: int
    words_dim: tirx.Var
    pool_dim: tirx.Var
    outputs: tuple[int, ...]
    launches: int
    trace: int
    traced: tirx.Var
    totals: tuple[tuple[int, tirx.Var], ...] = ()


Step: TypeAlias = (
    BindDim
    | SetDim
    | Check
    | CheckIndices
    | Reserve
    | Launch
    | Copy
    | CopySlice
    | Transfer
    | If
    | Loop
    | Call
    | RunInstances
)


@dataclass(frozen=True)
class Function:
    """What a caller runs. The functions of a program are told apart by their names; the name matters only where there
    are several."""

    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    arena: Arena
    inputs_as: tuple[Structure, ...] = ()
    """How the inputs are structured for the user; empty: each one is a tensor."""
    outputs_as: tuple[Structure, ...] = ()
    states: bool = False
    """Whether it uses the program's states. If so, their dims are also dims of the function."""
    internal: bool = False
    """Whether only other functions call it, not a user."""


@dataclass(frozen=True)
class States:
    """Tensors that keep their contents between runs: `tensors[i]` at `offsets[i]` of a block of `size` bytes. Offsets
    and size are expressions over `dims`, which the caller chooses when it makes the memory."""

    dims: tuple[Dim, ...] = ()
    tensors: tuple[Port, ...] = ()
    offsets: tuple[IntExpr, ...] = ()
    size: IntExpr = 0


@dataclass(frozen=True)
class Program:
    name: str
    functions: tuple[Function, ...]
    constants: tuple[Constant, ...]
    kernels: tuple[Kernel, ...]
    states: States = field(default=States())
    notes: tuple[str, ...] = field(default=())
    """Notes for the user: fallbacks taken, and why."""
    cpu: str = ""
    """The CPU that kernels are compiled for, a name of `codegen.native.cpus`; empty if not known."""
    alignment: int = ALIGNMENT
    """Bytes. Every arena tensor starts at a multiple of this."""
    gpu: Gpu | None = None
    """The GPU that runs some of the kernels, if there is one."""
    suffix: str = ""
    """What follows the name of the model in public C symbols, where a library holds the program beside others."""
    padded: tuple[Padded, ...] = ()
    """How the model pads that was converted to a ragged one; see `ImportedModel`."""
    stream: StreamEntry | None = None
    """Which frames a run of a stream takes; see `ImportedModel`."""
    task: TaskEntry | None = None
    """What the model computes in the user's terms; see `ImportedModel`."""
    task_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The files that `task` names."""
    license: str | None = None
    """What the model's file says of its licence; see `ImportedModel`."""
    in_less_memory: Callable[[], Program] | None = field(default=None, repr=False, compare=False)
    """Makes the program that `--optimize memory` asks for, if this one was made without it."""

    @property
    def level(self) -> str:
        """The name that distinguishes it from the other programs of the model: that of its GPU or CPU."""
        return self.cpu if self.gpu is None else self.gpu.name

    @property
    def public(self) -> tuple[Function, ...]:
        """The functions that users call."""
        return tuple(function for function in self.functions if not function.internal)

    @property
    def dynamic(self) -> DynamicModel | None:
        """What a dynamic model runs; None for another model."""
        steps = (step for function in self.functions for step in function.steps)
        return next((step.model for step in steps if isinstance(step, RunInstances)), None)

    @property
    def runs_instances(self) -> bool:
        """Whether it is a dynamic model."""
        return self.dynamic is not None
