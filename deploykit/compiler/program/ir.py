"""`Program`: the hinge between the compiler and what ships.

A program holds functions, which share its kernels, constants and states. A function is a list of destination-passing
steps over tensors whose shapes are integer expressions over symbolic dims. It knows nothing of TVM's runtime and
nothing of a target: the emitters turn it into C host code plus kernels. Integer expressions are `tvm.ir.Expr` of dtype
int64 (plain `int` where static).

Two kinds of integer variable occur in expressions:

* `Dim`: bound from the shapes of the inputs when a run starts, or for a size of states chosen by the caller; has
  bounds; known to the caller.
* data dims: bound on the way by a `BindDim` step from the contents of an integer tensor (`NonZero`, a `Reshape`
  whose target shape is computed, ...). The arena cannot depend on them, so every arena tensor also has a
  `capacity`, an expression over `Dim`s only, that bounds its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.lowering.kernel import Kernel

if TYPE_CHECKING:
    import numpy as np
    from tvm import ir, tirx

    from deploykit.compiler.devices.gpu import Gpu
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.model import Dim, Port
    from deploykit.structure import Structure

ALIGNMENT = 64
"""Bytes: every arena tensor and every constant starts at a multiple of this."""


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
    """Memory of the caller's that keeps its contents between runs, `index` into `Program.states`."""

    index: int


@dataclass(frozen=True)
class ArenaStorage:
    """Memory of the arena. `slot` is an index into `Function.arena.slots`; tensors that share a slot alias
    (views, in-place results)."""

    slot: int


Storage: TypeAlias = InputStorage | OutputStorage | ConstantStorage | StateStorage | ArenaStorage


@dataclass(frozen=True)
class Tensor:
    """A dense row-major tensor. `dtype` is the *storage* dtype, a C-like name (`float32`, `int64`, `bool`,
    `float16`, `uint8`, ...); the interface's logical dtype (`bfloat16`, `int4`, ...) is in `Port`."""

    name: str
    dtype: str
    shape: tuple[IntExpr, ...]
    storage: Storage


@dataclass(frozen=True)
class Constant:
    """Bytes folded and packed at build time. `offset` in `weights.bin`, a multiple of `ALIGNMENT`."""

    name: str
    data: np.ndarray
    offset: int


@dataclass(frozen=True)
class Slot:
    """A stretch of the arena. `size` and `offset` are bytes, expressions over dims (never over data dims).
    Live from step `first` to step `last` inclusive, in the numbering of `number_steps`."""

    name: str
    size: IntExpr
    offset: IntExpr
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    slots: tuple[Slot, ...]
    size: IntExpr
    """Bytes needed for given dims: max over slots of offset + size."""


@dataclass(frozen=True)
class BindDim:
    """`var := tensor[index]` (an integer tensor), then check `minimum <= var <= maximum` where given."""

    var: tirx.Var
    tensor: int
    index: int = 0
    minimum: IntExpr | None = None
    maximum: IntExpr | None = None


@dataclass(frozen=True)
class SetDim:
    """`var := value`."""

    var: tirx.Var
    value: IntExpr


@dataclass(frozen=True)
class Check:
    """Fail with `DK_ERROR_SHAPE` and `message` unless `condition` (a boolean expression) holds. `{}` in the message
    stands, in order, for the values of `values`."""

    condition: ir.Expr
    message: str
    values: tuple[IntExpr, ...] = ()


@dataclass(frozen=True)
class CheckIndices:
    """Fail with `DK_ERROR_DATA`, naming `what`, the element and its bounds, unless every element `i` of an integer
    tensor lies within `bounds[i % len(bounds)]`, both ends included."""

    tensor: int
    bounds: tuple[tuple[IntExpr, IntExpr], ...]
    what: str


@dataclass(frozen=True)
class Reserve:
    """Fail with `DK_ERROR_CAPACITY`, naming `what`, unless `bytes_needed <= bytes_available`. Guards arena tensors
    and outputs whose size depends on data dims. For an output, `output` is its index and the space is what the
    caller gave."""

    what: str
    bytes_needed: IntExpr
    bytes_available: IntExpr | None = None
    output: int | None = None
    capacity: tirx.Var | None = None


@dataclass(frozen=True)
class Launch:
    """Call `kernel` (index into `Program.kernels`) with tensors (indices into `Function.tensors`: inputs, then
    outputs, then workspaces) and integer scalars."""

    kernel: int
    tensors: tuple[int, ...]
    scalars: tuple[IntExpr, ...]
    outputs: int = 1
    """How many of `tensors` are written: the last `outputs` before the `workspaces` last ones."""
    workspaces: int = 0
    flops: IntExpr | None = None
    """Operations of the call, where they are known."""
    traffic: IntExpr | None = None
    """Bytes that it reads and writes, where they are known."""


@dataclass(frozen=True)
class Copy:
    """Copy all bytes of tensor `source` to tensor `target`, which has the same dtype and element count, on the `gpu` or
    else on the host."""

    target: int
    source: int
    gpu: bool = False


@dataclass(frozen=True)
class CopySlice:
    """Copy all bytes of `source` to row `row` of `target` (`target.shape == (rows, *source.shape)`). `where_room`: only
    where the target has room for the row; how many there are is known behind the loop, where a `Reserve` asks for
    what they need."""

    target: int
    source: int
    row: IntExpr
    gpu: bool = False
    where_room: bool = False


@dataclass(frozen=True)
class Transfer:
    """Copy tensors between the host and the GPU, where each has the same place: to the GPU, or back."""

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
    """Run the function of that name on the host, with tensors as its inputs, outputs and arena, and values of its dims,
    each in its order."""

    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arena: int
    dims: tuple[IntExpr, ...]


Step: TypeAlias = (
    BindDim | SetDim | Check | CheckIndices | Reserve | Launch | Copy | CopySlice | Transfer | If | Loop | Call
)


@dataclass(frozen=True)
class Function:
    """What a caller runs. Several functions of a program are told apart by their names; of one that has a single
    function nobody needs the name."""

    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    arena: Arena
    inputs_as: tuple[Structure, ...] = ()
    """What the inputs are to the user; empty: each is a tensor."""
    outputs_as: tuple[Structure, ...] = ()
    states: bool = False
    """Whether it works on the program's states, whose dims are then dims of it."""


@dataclass(frozen=True)
class States:
    """Tensors that keep their contents between runs: `tensors[i]` at `offsets[i]` of `size` bytes, expressions over
    `dims`, which the caller chooses when the memory is made."""

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
    """Things a user should be told: fallbacks taken and why."""
    cpu: str = ""
    """What the kernels are compiled for, a name of `codegen.native.cpus` or of a GPU; empty where that is not known."""
    alignment: int = ALIGNMENT
    """Bytes: every arena tensor starts at a multiple of this."""
    gpu: Gpu | None = None
    """What runs those of its kernels that it can, where there is one."""
