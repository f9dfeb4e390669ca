"""Turns Relax functions that call scheduled kernels into steps over tensors, before memory is planned.

The bindings of a function are walked in order, and the functions of branches and loop bodies are walked in place. Each
tensor belongs to a *buffer*: a reshape is another tensor on the same buffer. A buffer is an input, a state, a constant,
or memory that `deploykit.compiler.program.placement` places later. The functions of a model share constants and kernels
(`Pool`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir, relax, tirx

from deploykit.compiler.constants import array_of
from deploykit.compiler.dims import free_vars, simplify, substitute
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.lowering.lower import LoweredKernel, LoweredPart, LoweredParts
from deploykit.compiler.operators.building import control_flow
from deploykit.compiler.operators.building.context import UPDATES
from deploykit.compiler.operators.building.index_checks import checked_bounds, is_check, shortened
from deploykit.compiler.program.ir import (
    BindDim,
    Call,
    Check,
    CheckIndices,
    Copy,
    CopySlice,
    If,
    Launch,
    Loop,
    SetDim,
    Step,
)
from deploykit.errors import UnsupportedModelError

if TYPE_CHECKING:
    from deploykit.compiler.cost import Cost
    from deploykit.compiler.model import DataDim, ImportedModel, Requirement, Signature
    from deploykit.compiler.program.ir import Function


@dataclass
class Buffer:
    """Memory that tensors use. `source` is `("input", i)`, `("state", i)`, `("constant", i)` or `("memory", None)`."""

    name: str
    dtype: str
    elements: IntExpr
    source: tuple[str, int | None]


@dataclass
class DraftTensor:
    name: str
    dtype: str
    shape: tuple[IntExpr, ...]
    buffer: int


Lowered = LoweredKernel | LoweredParts


@dataclass
class Pool:
    """The kernels and constants that the functions of a module share. Three maps are by the names of PrimFuncs:
    `lowered` has them with the raw ABI, `overwritable` the inputs that the result may be written over, and `work` the
    cost of a call. `in_place[k]` are the inputs that kernel `k` may write its result over."""

    module: ir.IRModule
    lowered: MutableMapping[str, Lowered]
    overwritable: Mapping[str, tuple[int, ...]]
    work: MutableMapping[str, Cost | None]
    constants: list[tuple[str, np.ndarray]] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    in_place: list[tuple[int, ...]] = field(default_factory=list)
    _numbers: dict[str, list[int]] = field(default_factory=dict)
    _stored: dict[int, tuple[object, int]] = field(default_factory=dict)

    def constant(self, expr: Any) -> int:
        """The index of a constant, which is added if it is new. Equal constants of the same Relax node are stored
        once."""
        known = self._stored.get(hash(expr.value))
        if known is not None and known[0].same_as(expr.value):  # type: ignore[attr-defined]
            return known[1]
        index = len(self.constants)
        self.constants.append((f"constant_{index}", array_of(expr)))
        self._stored[hash(expr.value)] = (expr.value, index)
        return index

    def kernel(self, name: str) -> tuple[list[int], Lowered]:
        """The indices of the kernels of a PrimFunc, and its lowered form."""
        lowered = self.lowered[name]
        if name not in self._numbers:
            made = [lowered] if isinstance(lowered, LoweredKernel) else [part.kernel for part in lowered.parts]
            first = len(self.kernels)
            self._numbers[name] = list(range(first, first + len(made)))
            self.kernels += [each.kernel for each in made]
            self.in_place += [self.overwritable.get(name, ()) if len(made) == 1 else () for _ in made]
        return self._numbers[name], lowered


@dataclass
class Trace:
    """The result of walking the function `signature`. `results` are tensor indices: one per output, then one per
    updated state, then the groups of a ragged batch and their number, if it runs in groups. `last` are the steps that
    come after all others."""

    signature: Signature
    pool: Pool
    tensors: list[DraftTensor] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    last: list[Step] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    starts: dict[int, IntExpr] = field(default_factory=dict)
    """The element of its buffer at which a tensor begins that is a part of it."""


Bound = Any
"""What a Relax variable stands for: a tensor index, or a tuple of tensor indices."""


def trace(model: ImportedModel, signature: Signature, pool: Pool, called: Mapping[str, Function]) -> Trace:
    """Walk one of the model's functions. The functions that it calls must have been walked before."""
    walker = _Walker(model, Trace(signature, pool), called)
    gvar = pool.module.get_global_var(signature.name)
    states = {port.name: (index, port) for index, port in enumerate(model.states)}
    ports = [(("input", index), port) for index, port in enumerate(signature.inputs)]
    ports += [(("state", index), port) for index, port in map(states.__getitem__, signature.states)]
    params = [
        walker.new_tensor(port.name, str(param.ty.dtype), port.shape, source)
        for (source, port), param in zip(ports, pool.module[gvar].params, strict=True)
    ]
    results = walker.function(gvar, params)
    walker.steps[:0] = walker.first
    walker.result.results = list(results)
    return walker.result


class _Walker:
    def __init__(self, model: ImportedModel, result: Trace, called: Mapping[str, Function]) -> None:
        self.inputs = result.signature.inputs
        self.pool = result.pool
        self.module = result.pool.module
        self.functions = called
        self.result = result
        self.steps = result.steps
        self.data_dims: dict[tirx.Var, DataDim] = {d.var: d for d in model.data_dims}
        self.unbound = set(self.data_dims)
        self.pending: list[Requirement] = list(model.requirements)
        self.entered: list[str] = []
        """The functions that the walk is currently in."""
        self.constants: dict[int, int] = {}
        """The tensor of each constant, by the index of the constant."""
        self.first: list[Step] = []
        self.made_by_gpu: set[int] = set()
        """The buffers that shaders write."""

    # Tensors

    def new_tensor(
        self, name: str, dtype: str, shape: Sequence[IntExpr], source: tuple[str, int | None] = ("memory", None)
    ) -> int:
        elements: IntExpr = 1
        for n in shape:
            elements = elements * n
        self.result.buffers.append(Buffer(name, dtype, simplify(elements), source))
        return self._add(name, dtype, shape, len(self.result.buffers) - 1)

    def _add(self, name: str, dtype: str, shape: Sequence[IntExpr], buffer: int) -> int:
        self.result.tensors.append(DraftTensor(name, dtype, tuple(simplify(n) for n in shape), buffer))
        return len(self.result.tensors) - 1

    def view(self, source: int, name: str, shape: Sequence[IntExpr]) -> int:
        tensor = self.result.tensors[source]
        return self._add(name, tensor.dtype, shape, tensor.buffer)

    def from_type(self, name: str, type_: relax.TensorType) -> int:
        return self.new_tensor(name, str(type_.dtype), list(type_.shape.values))

    def constant(self, expr: Any) -> int:
        number = self.pool.constant(expr)
        if number not in self.constants:
            name, array = self.pool.constants[number]
            shape = [int(n) for n in array.shape]
            self.constants[number] = self.new_tensor(name, str(expr.ty.dtype), shape, ("constant", number))
        return self.constants[number]

    # Functions and bindings

    def function(self, gvar: ir.GlobalVar, arguments: Sequence[int]) -> list[int]:
        """Walk a function; `arguments` are the tensors for its parameters. Returns the tensors of its result tuple."""
        func = self.module[gvar]
        self.entered.append(gvar.name_hint)
        self.flush_requirements()
        env: dict[relax.Var, Bound] = dict(zip(func.params, arguments, strict=True))
        for block in func.body.blocks:
            for binding in block.bindings:
                self.binding(binding, env)
        result = self.value(func.body.body, env)
        self.entered.pop()
        return list(result) if isinstance(result, tuple) else [result]

    def binding(self, binding: relax.Binding, env: dict[relax.Var, Bound]) -> None:
        if isinstance(binding, relax.MatchCast):
            env[binding.var] = self.match_cast(binding, env)
            return
        value = binding.value
        name = binding.var.name
        kind = control_flow.called(value)
        if kind == control_flow.IF:
            env[binding.var] = self.branch(value, name, env)
        elif kind == control_flow.LOOP:
            env[binding.var] = self.loop(value, name, env)
        elif is_check(value):
            env[binding.var] = self.check_indices(value, env)
        elif isinstance(value, relax.Call):
            env[binding.var] = self.call(value, name, env)
        else:
            env[binding.var] = self.value(value, env)

    def value(self, expr: Any, env: Mapping[relax.Var, Bound]) -> Bound:
        if isinstance(expr, relax.Tuple):
            return tuple(self.value(f, env) for f in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value, env)[expr.index]
        if isinstance(expr, relax.Var):
            return env[expr]
        return self.constant(expr)

    def call(self, call: relax.Call, name: str, env: Mapping[relax.Var, Bound]) -> Bound:
        if isinstance(call.op, ir.GlobalVar):
            return self.call_function(call, name, env)
        if call.op.name == "relax.call_tir":
            return self.launch(call, name, env)
        if call.op.name == "relax.reshape":
            return self.view(self.value(call.args[0], env), name, list(call.args[1].values))
        if call.op.name == "relax.tensor_to_shape":
            return self.value(call.args[0], env)
        raise NotImplementedError(f"{call.op.name} reached the program stage; it needs a legalisation")

    def call_function(self, call: relax.Call, name: str, env: Mapping[relax.Var, Bound]) -> Bound:
        callee = self.functions[call.op.name_hint]
        require_callable(callee)
        inputs = [self.value(argument, env) for argument in call.args]
        shapes = zip(callee.inputs, (self.result.tensors[t].shape for t in inputs), strict=True)
        values: dict[tirx.Var, IntExpr] = {}
        for port, shape in shapes:
            values.update({f: a for f, a in zip(port.shape, shape, strict=True) if isinstance(f, tirx.Var)})
        types = [call.ty] if isinstance(call.ty, relax.TensorType) else list(call.ty.fields)
        outputs = [self.from_type(f"{name}_{i}", t) for i, t in enumerate(types)]
        arena = self.new_tensor(f"{name}_arena", "uint8", [substitute(callee.arena.size, values)])
        dims = tuple(values[dim.var] for dim in callee.dims)
        self.steps.append(Call(callee.name, tuple(inputs), tuple(outputs), arena, dims))
        return outputs[0] if isinstance(call.ty, relax.TensorType) else tuple(outputs)

    def match_cast(self, binding: relax.MatchCast, env: Mapping[relax.Var, Bound]) -> Bound:
        tensor = self.value(binding.value, env)
        if isinstance(binding.ty, relax.ShapeType):
            for index, var in enumerate(binding.ty.values):
                bounds = self.data_dims[var]
                self.steps.append(BindDim(var, tensor, index, bounds.minimum, bounds.maximum))
                self.bound(var)
        return tensor

    def check_indices(self, call: relax.Call, env: Mapping[relax.Var, Bound]) -> Bound:
        """Add a check of indices. Checks keep kernels within the bounds of the tensors that they index.

        Outside of control flow, a check of an input whose bounds are known when the run begins comes first, before
        anything is written. A check of values that a GPU computes comes last, when the host waits for the outputs
        anyway."""
        tensor: int = self.value(call.args[1], env)
        buffer = self.result.tensors[tensor].buffer
        kind, position = self.result.buffers[buffer].source
        what = str(call.args[3].value)
        if kind == "input" and f"'{self.inputs[position or 0].name}'" not in what:
            what = f"{what} of input '{shortened(self.inputs[position or 0].name)}'"
        step = CheckIndices(tensor, checked_bounds(call), what)
        if self.steps is not self.result.steps:
            self.steps.append(step)
        elif buffer in self.made_by_gpu:
            self.result.last.append(step)
        elif kind == "input" and not self.reads_data_dims(step):
            self.first.append(step)
        else:
            self.steps.append(step)
        return tensor

    def reads_data_dims(self, step: CheckIndices) -> bool:
        exprs = [*(n for pair in step.bounds for n in pair), *self.result.tensors[step.tensor].shape]
        return any(v in self.data_dims for n in exprs for v in free_vars(n))

    def bound(self, var: tirx.Var) -> None:
        self.unbound.discard(var)
        self.flush_requirements()

    def flush_requirements(self) -> None:
        """Emit the pending checks of the functions that the walk is in, if all variables of a check are bound."""
        ready = [
            r
            for r in self.pending
            if r.function in self.entered and not any(v in self.unbound for v in _requirement_vars(r))
        ]
        self.pending = [r for r in self.pending if r not in ready]
        self.steps.extend(Check(r.condition, r.message, r.values) for r in ready)

    # Kernels

    def launch(self, call: relax.Call, name: str, env: Mapping[relax.Var, Bound]) -> Bound:
        types = list(call.ty_args[0].fields) if isinstance(call.ty_args[0], relax.TupleType) else list(call.ty_args)
        arguments = [a if _is_scalar(a) else self.value(a, env) for a in call.args[1].fields]
        outputs = [self.from_type(name if len(types) == 1 else f"{name}_{i}", t) for i, t in enumerate(types)]
        indices, lowered = self.pool.kernel(call.args[0].name_hint)
        if UPDATES in (self.module[call.args[0]].attrs or {}):
            self.steps.append(Copy(outputs[0], arguments[0]))
            arguments[0] = outputs[0]
        scalars = self.match(self.module[call.args[0]], [*arguments, *outputs])
        tensors = [a for a in arguments if isinstance(a, int)] + outputs
        if isinstance(lowered, LoweredParts):
            temporaries = [
                self.new_tensor(f"{name}_{t}", w.dtype, [substitute(n, scalars) for n in w.shape])
                for t, w in enumerate(lowered.temporaries)
            ]
            everything, parts = [*tensors, *temporaries], lowered.parts
        else:
            everything, parts = tensors, (LoweredPart(lowered, tuple(range(len(tensors))), len(outputs)),)
        work = self.pool.work.get(call.args[0].name_hint)
        for part, index in zip(parts, indices, strict=True):
            counted = work if part is parts[-1] else None
            workspaces = [
                self.new_tensor(f"{name}_workspace", w.dtype, [substitute(n, scalars) for n in w.shape])
                for w in part.kernel.workspaces
            ]
            if part.kernel.kernel.gpu:
                written = part.operands[-part.outputs :]
                self.made_by_gpu.update(self.result.tensors[everything[i]].buffer for i in written)
            self.steps.append(
                Launch(
                    kernel=index,
                    tensors=(*(everything[i] for i in part.operands), *workspaces),
                    scalars=tuple(simplify(scalars[v]) for v in part.kernel.scalars),
                    outputs=part.outputs,
                    workspaces=len(workspaces),
                    flops=None if counted is None else substitute(counted.flops, scalars),
                    traffic=None if counted is None else substitute(counted.traffic, scalars),
                )
            )
        return outputs[0] if len(outputs) == 1 and not isinstance(call.ty, relax.TupleType) else tuple(outputs)

    def match(self, func: tirx.PrimFunc, arguments: Sequence[Any]) -> dict[tirx.Var, IntExpr]:
        """The values of the function's integer variables: its integer parameters, and the dims of its buffer shapes."""
        pairs = list(zip(func.params, arguments, strict=True))
        env: dict[tirx.Var, IntExpr] = {p: argument for p, argument in pairs if not tirx.is_buffer_var(p)}
        for param, argument in pairs:
            if tirx.is_buffer_var(param):
                for formal, actual in zip(param.shape, self.result.tensors[argument].shape, strict=True):
                    if isinstance(formal, tirx.Var):
                        env.setdefault(formal, actual)
        return env

    # Control flow

    def nested(self, walk: Callable[[], None]) -> tuple[Step, ...]:
        """The steps that `walk` appends, removed from the current list."""
        outer, self.steps = self.steps, []
        walk()
        inner, self.steps = self.steps, outer
        return tuple(inner)

    def branch(self, call: relax.Call, name: str, env: Mapping[relax.Var, Bound]) -> Bound:
        condition, then, otherwise, captured = call.args[1:]
        test = self.value(condition, env)
        arguments = list(self.value(captured, env))
        results = [self.from_type(f"{name}_{i}", t) for i, t in enumerate(call.ty_args[0].fields)]
        fresh = self._fresh_dims(results)

        def walk(gvar: ir.GlobalVar) -> tuple[Step, ...]:
            return self.nested(lambda: self._finish(results, self.function(gvar, arguments), fresh))

        self.steps.append(If(test, walk(then), walk(otherwise)))
        for var in fresh:
            self.bound(var)
        return tuple(results)

    def _fresh_dims(self, results: Sequence[int]) -> list[tirx.Var]:
        dims = [n for r in results for n in self.result.tensors[r].shape if isinstance(n, tirx.Var)]
        return [v for v in dict.fromkeys(dims) if v in self.unbound]

    def _finish(self, targets: Sequence[int], sources: Sequence[int], fresh: Sequence[tirx.Var]) -> None:
        """Set the dims that the shapes of the targets leave open to those of the sources, and copy the sources."""
        values: dict[tirx.Var, IntExpr] = {}
        for target, source in zip(targets, sources, strict=True):
            shapes = zip(self.result.tensors[target].shape, self.result.tensors[source].shape, strict=True)
            values.update(
                {formal: actual for formal, actual in shapes if isinstance(formal, tirx.Var) and formal in fresh}
            )
        self.steps.extend(SetDim(var, value) for var, value in values.items())
        self.steps.extend(Copy(t, s) for t, s in zip(targets, sources, strict=True))

    def loop(self, call: relax.Call, name: str, env: Mapping[relax.Var, Bound]) -> Bound:
        body, trips, condition, carried, captured, counters = call.args[1:]
        index, count = counters.values
        initial = list(self.value(carried, env))
        outer = list(self.value(captured, env))
        types = list(call.ty_args[0].fields)
        state = [self.from_type(f"{name}_state{i}", t) for i, t in enumerate(types[: len(initial)])]
        rows = [self.from_type(f"{name}_rows{i}", t) for i, t in enumerate(types[len(initial) :])]
        going: int | None = None
        if not isinstance(condition, relax.Tuple):
            going = self.new_tensor(f"{name}_condition", "bool", ())
            self.steps.append(Copy(going, self.value(condition, env)))
        self.steps.extend(Copy(t, s) for t, s in zip(state, initial, strict=True))

        def walk() -> None:
            self.bound(index)
            results = self.function(body, [*state, *outer])
            if going is not None:
                self.steps.append(Copy(going, results.pop(0)))
            ends, collected = results[: len(state)], results[len(state) :]
            self.steps.extend(CopySlice(t, s, index) for t, s in zip(rows, collected, strict=True))
            held = self._shield(ends, state)
            self.steps.extend(Copy(t, s) for t, s in zip(state, held, strict=True) if not self._same(t, s))

        steps = self.nested(walk)
        self.steps.append(Loop(index, trips.values[0] if len(trips.values) else None, going, steps, count))
        self.bound(count)
        return (*state, *rows)

    def _same(self, one: int, other: int) -> bool:
        """Whether two tensors are the same memory, as where an iteration passes a state on unchanged."""
        return self.result.tensors[one].buffer == self.result.tensors[other].buffer

    def _shield(self, ends: Sequence[int], state: Sequence[int]) -> list[int]:
        """The new values of a loop's states, with a copy of each one that is the old value of another state. So
        updating one state does not change the new value of another."""
        held = []
        buffers = {self.result.tensors[s].buffer for s in state}
        for end, own in zip(ends, state, strict=True):
            tensor = self.result.tensors[end]
            if tensor.buffer in buffers and tensor.buffer != self.result.tensors[own].buffer:
                copy = self.new_tensor(f"{tensor.name}_old", tensor.dtype, tensor.shape)
                self.steps.append(Copy(copy, end))
                held.append(copy)
            else:
                held.append(end)
        return held


def require_callable(function: Function) -> None:
    """Raises `UnsupportedModelError` for a function that another function cannot give memory: its sizes depend on data,
    or it has states."""
    known = {dim.var for dim in function.dims if dim.capacity_of is None}
    exprs = [function.arena.size, *(n for port in function.outputs for n in port.shape)]
    unknown = sorted({var.name for n in exprs for var in free_vars(n) if var not in known})
    if unknown or function.states:
        reason = f"a run finds out how large {', '.join(unknown)} is" if unknown else "it has states"
        raise UnsupportedModelError(f"'{function.name}' cannot be called by another function: {reason}")


def _is_scalar(expr: Any) -> bool:
    return isinstance(expr.ty, ir.PrimType)


def _requirement_vars(requirement: Requirement) -> list[tirx.Var]:
    found = list(free_vars(requirement.condition))
    for value in requirement.values:
        found.extend(free_vars(value))
    return found
