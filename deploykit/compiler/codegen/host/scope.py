"""What the host code of one function calls everything: its dims, data dims, tensors and kernels as C identifiers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.c.kernels import ESTIMATES, c_expression, emit_prototypes, symbol
from deploykit.compiler.codegen.host.identifiers import Names, c_string, prefix
from deploykit.compiler.codegen.host.reads import Reads
from deploykit.compiler.codegen.shaders.bindings import shaders_of
from deploykit.compiler.dims import largest, magnitude
from deploykit.compiler.program.ir import (
    ArenaStorage,
    BindDim,
    ConstantStorage,
    Function,
    If,
    InputStorage,
    Loop,
    OutputStorage,
    Program,
    RunInstances,
    SetDim,
    StateStorage,
    Step,
    Storage,
    Transfer,
)
from deploykit.compiler.program.sizes import tensor_bytes
from deploykit.compiler.program.steps import number_steps

if TYPE_CHECKING:
    from tvm import tirx

    from deploykit.compiler.codegen.shaders.language import Sharing
    from deploykit.compiler.dims.expressions import IntExpr

LARGEST_EXTENT = (1 << 40) - 1
"""`DK_MAX_EXTENT`."""

_LARGEST_SIZE = 1 << 62

_RESERVED = (
    *("model", "base", "inputs", "outputs", "arena", "weights", "dims", "status"),
    *("call", "context", "begin", "end", "needed", "available", "values", "output", "tensor", "what", "bounds"),
    *("place", "slices", "scalars", "from", "to", "driver", "resume", "levels", "steps", "prepare", "room"),
    *("arena_size", "output_shape"),
)
"""Names that the templates give to parameters, locals and functions."""

_OF_STATES = ("state", "state_size")
_OF_CALLS = ("callee", "given", "taken")
_OF_INSTANCES = ("stream", "queue", "chosen", "plan", "row")


def function_prefix(program: Program, function: Function) -> str:
    """What the public symbols of a function start with. When there are several functions that users call, and for those
    that only others call, the name of the function follows that of the program."""
    start = prefix_of(program)
    alone = not function.internal and len(program.public) == 1
    return start if alone else f"{start}_{function.name}"


def prefix_of(program: Program) -> str:
    """What every public C symbol of the program starts with."""
    return prefix(program.name) + program.suffix


def _tables(function: Function, own: str) -> Iterator[str]:
    """Names of arrays of `model.c`."""
    for kind, ports in (("input", function.inputs), ("output", function.outputs)):
        yield from (f"{kind}_{index}" for index in range(len(ports)))
        yield f"{kind}s_of_{own}"
    yield f"dims_of_{own}"


class Scope:
    """Names of one function of a program in C, and the texts that follow from them."""

    def __init__(self, program: Program, function: Function, kernel_prefix: str | None = None, level: str = "") -> None:
        """`level` ends the names of the C functions that hold steps."""
        self.program = program
        self.function = function
        self.reads = Reads(program, function)
        self.prefix = function_prefix(program, function)
        reserved = (*_RESERVED, *(_OF_STATES if function.states else ()))
        reserved = (*reserved, *(_OF_CALLS if len(program.functions) > 1 else ()))
        reserved = (*reserved, *(_OF_INSTANCES if any(isinstance(s, RunInstances) for s in function.steps) else ()))
        names = Names((*reserved, *_tables(function, self.prefix)), f"{prefix_of(program)}_")
        self.kernel_prefix = kernel_prefix or prefix_of(program)
        self.level = level
        self.dims = tuple(names.take(dim.name) for dim in function.dims)
        self.resumes = _resumes(function.steps) if program.gpu is not None else {}
        """Steps where a run on a GPU may go on later. The numbers of these places begin with 1."""
        self._prototypes: dict[int, str] = {}
        self._variables: dict[tirx.Var, str] = {
            dim.var: name for dim, name in zip(function.dims, self.dims, strict=True)
        }
        self._tensors = tuple(_pointers(function, names))
        data_dims = [var for var in _bound_by(function.steps) if var not in self._variables]
        self._variables |= {var: names.take(var.name) for var in dict.fromkeys(data_dims)}
        self._bounds = {
            dim.var: (dim.minimum, LARGEST_EXTENT if dim.maximum is None else dim.maximum) for dim in function.dims
        }
        self._nonnegative = frozenset(dim.var for dim in function.dims)
        self._texts: dict[IntExpr, str] = {}

    @property
    def data_dims(self) -> list[str]:
        """The data dims that the code reads."""
        own = list(self._variables.items())[len(self.dims) :]
        return [name for var, name in own if var in self.reads.variables]

    def locals(self, access: str, read: Container[tirx.Var]) -> list[str]:
        """Declarations of the dims in `read`. `access` comes before the field of a dim."""
        names = (name for dim, name in zip(self.function.dims, self.dims, strict=True) if dim.var in read)
        return [f"const int64_t {name} = {access}{name};" for name in names]

    def expr(self, value: IntExpr) -> str:
        """C text of an integer expression over dims and data dims."""
        if isinstance(value, int):
            return str(value)
        if value not in self._texts:
            self._texts[value] = c_expression(value, self.variable, self._nonnegative)
        return self._texts[value]

    def size(self, value: IntExpr) -> str:
        """C text of a number of bytes. It guards against overflow unless the bounds of the dims exclude that."""
        exact = self.expr(value)
        most = largest(value, self._bounds)
        if most is not None and most < _LARGEST_SIZE:
            return exact
        bound = magnitude(value, self._nonnegative)
        estimate = c_expression(bound, lambda var: f"(double){self.variable(var)}", functions=ESTIMATES)
        return f"DK_SIZE({estimate}, {exact})"

    def kernel_expr(self, value: IntExpr, names: Mapping[tirx.Var, str]) -> str:
        """C text of an expression over a kernel's own integer parameters, which are called `names`."""
        return c_expression(value, names.__getitem__, names)

    def kernel_estimate(self, value: IntExpr, names: Mapping[tirx.Var, str]) -> str:
        """The same as `kernel_expr` in floating point, which does not overflow."""
        return c_expression(value, lambda var: f"(double){names[var]}", functions=ESTIMATES)

    def variable(self, var: tirx.Var) -> str:
        """The identifier of a dim or data dim."""
        return self._variables[var]

    def pointer(self, index: int) -> str:
        """The identifier of the pointer to a tensor, or to what it is a part of."""
        return self._tensors[index]

    def tensor(self, index: int) -> str:
        """C text of the address of a tensor."""
        start = self.function.tensors[index].start
        return self.pointer(index) if start is None else f"{self.pointer(index)} + {self.expr(start)}"

    @cached_property
    def shaders(self) -> dict[tuple[int, Sharing], int]:
        """The numbers of the program's shaders."""
        return shaders_of(self.program)

    def part(self, index: int, first: int, size: int | str) -> str:
        """Where `size` bytes of a constant lie on the GPU, from byte `first` on."""
        storage = self.function.tensors[index].storage
        assert isinstance(storage, ConstantStorage)
        offset = self.program.constants[storage.index].offset + first
        return f"{{DK_BUFFER_WEIGHTS, {quoted(self.function.tensors[index].name)}, {offset}, {size}}}"

    def slice(self, index: int) -> str:
        """Where a tensor lies on the GPU, as the initialiser of a `dk_slice`. What another function calls gets places
        in the arena of the GPU in place of addresses."""
        tensor, called = self.function.tensors[index], self.function.internal
        match tensor.storage:
            case ArenaStorage(slot) if called:
                start = self.expr(self.function.arena.slots[slot].offset)
                buffer, offset = "DK_BUFFER_ARENA", f"(int64_t)(uintptr_t)base->arena + {start}"
            case InputStorage(port) if called:
                buffer, offset = "DK_BUFFER_ARENA", f"(int64_t)(uintptr_t)inputs[{port}].data"
            case OutputStorage(port) if called:
                buffer, offset = "DK_BUFFER_ARENA", f"(int64_t)(uintptr_t)outputs[{port}].data"
            case ArenaStorage(slot):
                buffer, offset = "DK_BUFFER_ARENA", self.expr(self.function.arena.slots[slot].offset)
            case ConstantStorage(constant):
                buffer, offset = "DK_BUFFER_WEIGHTS", str(self.program.constants[constant].offset)
            case StateStorage(state):
                buffer, offset = "DK_BUFFER_STATES", self.expr(self.program.states.offsets[state])
            case InputStorage(port):
                buffer, offset = f"dk_port_buffer(driver, {port})", "0"
            case OutputStorage(port):
                buffer, offset = f"dk_port_buffer(driver, {len(self.function.inputs) + port})", "0"
        return f"{{{buffer}, {quoted(tensor.name)}, {offset}, {self.expr(tensor_bytes(tensor))}}}"

    def callee(self, name: str) -> Function:
        """The function of the program that a step calls."""
        return next(function for function in self.program.functions if function.name == name)

    def prefix_of(self, name: str) -> str:
        """What the symbols of a function of the program start with."""
        return function_prefix(self.program, self.callee(name))

    def kernel(self, index: int) -> str:
        """The C function of a kernel."""
        return symbol(self.program.kernels[index], self.kernel_prefix)

    def prototype(self, index: int) -> str:
        """The declaration of a kernel's C function, with the semicolon."""
        if index not in self._prototypes:
            self._prototypes[index] = emit_prototypes([self.program.kernels[index]], self.kernel_prefix).strip()
        return self._prototypes[index]

    def call_fields(self, index: int) -> list[str]:
        """The parameters of a kernel with a parallel loop as members of a struct, without `begin` and `end`."""
        prototype = self.prototype(index)
        params = prototype[prototype.index("(") + 1 : prototype.rindex(")")].split(",")
        return [param.replace("restrict ", "").strip() for param in params[:-2]]


def quoted(name: str) -> str:
    """A name as a C string without spaces, as a line may be broken at a space."""
    return c_string(name).replace(" ", r"\040")


def _pointers(function: Function, names: Names) -> Iterator[str]:
    """The identifier of the pointer to each tensor. Tensors of one name at one place, which are parts of it, share
    it."""
    known: dict[tuple[str, Storage, str], str] = {}
    for tensor in function.tensors:
        place = (tensor.name, tensor.storage, tensor.dtype)
        if place not in known:
            known[place] = names.take(tensor.name)
        yield known[place]


def _resumes(steps: Sequence[Step]) -> dict[int, int]:
    """The numbers of the steps that wait for the GPU, each with its place among them. A step that runs instances is the
    only one of its function, and waits at several places."""
    waits = (each.number for each in number_steps(steps) if _waits(each.step))
    return {number: place for place, number in enumerate(waits, 1)}


def _waits(step: Step) -> bool:
    return isinstance(step, RunInstances) or (isinstance(step, Transfer) and not step.to_gpu)


def _bound_by(steps: Iterable[Step]) -> list[tirx.Var]:
    """The variables that `steps` set, in order. One that is set twice occurs twice."""
    found: list[tirx.Var] = []
    for step in steps:
        match step:
            case BindDim() | SetDim():
                found.append(step.var)
            case RunInstances():
                found += [*(var for _, var in step.totals), step.traced]
            case If():
                found += _bound_by(step.then) + _bound_by(step.otherwise)
            case Loop():
                found += [step.index, *_bound_by(step.body), step.count]
            case _:
                pass
    return found
