"""Proves that no valid position of a padded model depends on its padding.

The analysis follows the bindings of a function and finds, for each tensor, what is at its valid places and at its
places in the padding (`contents`). Token-wise operations leave garbage in the padding. A mask of zeros or of very low
numbers, a softmax behind such a mask, a masked sum, and reading the first position end it. An operation that brings
garbage to a valid place is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from tvm import ir, relax

from deploykit.compiler.constants import read as reading
from deploykit.compiler.graph.bindings import operator_of
from deploykit.compiler.operators.building import control_flow
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.index_checks import is_check
from deploykit.compiler.operators.building.kernel_calls import is_tensor
from deploykit.compiler.ragged.conversion.contents import Content, RaggedDim, axes_of, dense, subsets, uniform
from deploykit.compiler.ragged.conversion.evaluation import StageEvaluation
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call, tensor_operands
from deploykit.compiler.ragged.conversion.places import equal, product
from deploykit.compiler.ragged.conversion.products import product_content
from deploykit.compiler.ragged.conversion.recurrent import layer_contents
from deploykit.compiler.ragged.conversion.states import EXACT, LENGTH, VALID, State, constant, garbage
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr
from deploykit.compiler.tir.values import dtype_of, static

UNIFORM_BYTES = 1 << 20
"""Constants above this size are not searched for a single value."""


Found = TypeVar("Found")


class Leak(Exception):
    """A valid position depends on the padding: which node, and why."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(f"{node}: {reason}")
        self.node, self.reason = node, reason


def prove(
    mod: ir.IRModule, func: relax.Function, dim: RaggedDim, masks: Collection[relax.Var]
) -> Mapping[relax.Expr, Content]:
    """The contents of all tensors of `func`, a function of `mod` without control flow over ragged tensors. `masks` are
    the inputs that are 1 at valid positions and 0 in the padding, or, with one dim, hold the lengths of the instances.
    Raises `Leak`."""
    return _Prover(mod, dim).run(func, masks)


class _Prover:
    def __init__(self, mod: ir.IRModule, dim: RaggedDim) -> None:
        self.mod, self.dim = mod, dim
        self.contents: dict[relax.Expr, Content] = {}
        self.tuples: dict[relax.Expr, list[Content]] = {}

    def run(self, func: relax.Function, masks: Collection[relax.Var]) -> Mapping[relax.Expr, Content]:
        for param in func.params:
            mask = param in masks
            valid, padding = (constant(1), constant(0)) if mask else (VALID, garbage("an input"))
            shape = list(param.ty.shape.values)
            if mask and len(shape) == 1:
                self.contents[param] = dense(LENGTH)
                continue
            self.contents[param] = self.named(param.name, partial(uniform, shape, self.dim, valid, padding))
        for block in func.body.blocks:
            for binding in block.bindings:
                name = binding.var.name
                if isinstance(binding, relax.VarBinding):
                    found = self.named(name, partial(self.binding, binding))
                    if len(found) > 1:
                        self.tuples[binding.var] = found
                        continue
                    if found[0].valid.kind == "garbage":
                        raise Leak(name, found[0].valid.why)
                    self.contents[binding.var] = found[0]
        return self.contents

    def named(self, name: str, evaluate: Callable[[], Found]) -> Found:
        """The result of `evaluate`. An error about a shape names the tensor."""
        try:
            return evaluate()
        except Unsupported as error:
            raise Leak(name, str(error)) from error

    def of(self, expr: relax.Expr) -> Content:
        if isinstance(expr, ir.GenericConst):
            return dense(_constant_state(expr))
        return self.contents[expr]

    def binding(self, binding: relax.VarBinding) -> list[Content]:
        """The contents of the results of a binding."""
        value = binding.value
        call = kernel_call(self.mod, value)
        if call is not None:
            return self.kernel(call)
        operator = operator_of(value)
        if is_check(value):
            return [self.of(value.args[1])]
        if operator == "relax.matmul":
            left, right = value.args
            types = [list(x.ty.shape.values) for x in (left, right, binding.var)]
            return [product_content(types, self.of(left), self.of(right), self.dim)]
        if operator == "relax.reshape":
            return [self.reshaped(value.args[0], binding.var)]
        if isinstance(value, relax.Var | ir.GenericConst):
            return self.tuples[value] if value in self.tuples else [self.of(value)]
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self.tuples:
            return [self.tuples[value.tuple_value][value.index]]
        operands = self.everything(value)
        if any(self.of(operand).is_ragged for operand in operands):
            kind = control_flow.called(value) or operator or "a tuple"
            if isinstance(value, relax.Tuple):
                return [dense(VALID)]
            raise Unsupported(f"'{kind}' cannot be ragged yet")
        return [dense(VALID)]

    def everything(self, value: relax.Expr) -> Sequence[relax.Expr]:
        """The tensors that a value mentions."""
        if isinstance(value, relax.Tuple):
            return [part for part in value.fields if is_tensor(part)]
        if not isinstance(value, relax.Call):
            return []
        nested = [part for argument in value.args if isinstance(argument, relax.Tuple) for part in argument.fields]
        return [part for part in (*tensor_operands(value), *nested) if is_tensor(part)]

    def kernel(self, call: KernelCall) -> list[Content]:
        """The contents of the results of a kernel."""
        known: dict[Buffer, Content] = {buffer: self.of(operand) for buffer, operand in call.operands.items()}
        ragged = any(content.is_ragged for content in known.values())
        shapes = [list(buffer.shape) for buffer in call.results]
        if not call.staged:
            if call.scan is not None:
                return [self.scan(call, *known.values())]
            if call.layer is not None and ragged:
                return layer_contents(call, call.layer, list(known.values()), self.dim)
            if ragged:
                raise Unsupported(f"it is computed by loops in order ('{call.name}'), which cannot be ragged yet")
            return [uniform(shape, self.dim, VALID, VALID) for shape in shapes]
        for stage in call.stages:
            assert isinstance(stage, Stage)
            for buffer in stage.outputs:
                known[buffer] = self.stage(stage, buffer, known)
                if known[buffer].valid.kind == "garbage":
                    return [known[buffer]]
        return [known.get(buffer) or dense(VALID) for buffer in call.results]

    def scan(self, call: KernelCall, source: Content) -> Content:
        """The content of running totals along axis 1 of a tensor of three axes. They depend on padding only if padding
        comes before."""
        batch, ragged = axes_of(list(call.results[0].shape), self.dim)
        if not source.is_ragged:
            return uniform(list(call.results[0].shape), self.dim, VALID, VALID)
        if batch != 0 or ragged != (1,):
            raise Unsupported(f"its running totals are not along '{self.dim.extent.name}'")
        padding = source.states[frozenset((1,))]
        valid = VALID if source.valid.kind == "constant" else source.valid
        if call.scan == "reverse" and not (call.name.startswith("cumsum") and padding.is_constant(0)):
            valid = garbage(f"it adds up '{self.dim.extent.name}' from its end")
        return Content(batch, ragged, {frozenset(): valid, frozenset((1,)): garbage("running totals")})

    def stage(self, stage: Stage, target: Buffer, known: Mapping[Buffer, Content]) -> Content:
        """The content of a buffer that a stage writes."""
        evaluation = StageEvaluation(stage, self.dim, known)
        batch, ragged = axes_of(list(target.shape), self.dim)
        stores = [store for store in stage.stores if store.buffer.same_as(target)]
        indices = list(stores[0].indices)
        own = {axis.var for axis in evaluation.axes.ragged}
        for axis in ragged:
            if indices[axis] not in own:
                raise Unsupported(f"it moves elements along '{self.dim.extent.name}'")

        def result(padded: frozenset[ir.Var]) -> State:
            state = evaluation.result(padded)
            exact = not state.is_own or (evaluation.is_own(stores[0]) and dtype_of(target) in EXACT)
            return state if exact else VALID

        if batch is None and evaluation.axes.batch is None:
            return dense(result(frozenset()))
        states = {padded: result(frozenset(indices[axis] for axis in padded)) for padded in subsets(ragged)}
        return Content(batch, ragged, states)

    def reshaped(self, source: relax.Expr, target: relax.Var) -> Content:
        """The content of the same elements in another shape, which must keep the ragged dims."""
        content = self.of(source)
        shape: list[Expr] = list(target.ty.shape.values)
        if not content.is_ragged:
            plain = all(static(extent) == 1 or extent.same_as(self.dim.batch) for extent in (*source.ty.shape, *shape))
            state = content.valid if not content.valid.is_own or plain else VALID
            return uniform(shape, self.dim, state, state)
        batch, ragged = axes_of(shape, self.dim)
        if batch is None or len(ragged) != len(content.ragged):
            raise Unsupported(f"it reshapes '{self.dim.extent.name}' away")
        moved = dict(zip(ragged, content.ragged, strict=True))
        before = [product(source.ty.shape.values[:axis]) for axis in (content.batch, *content.ragged)]
        after = [product(shape[:axis]) for axis in (batch, *ragged)]
        if not all(equal(a, b) for a, b in zip(before, after, strict=True)):
            raise Unsupported(f"it reshapes across '{self.dim.extent.name}'")
        states = {padded: content.states[frozenset(moved[axis] for axis in padded)] for padded in subsets(ragged)}
        return Content(batch, ragged, states)


def _constant_state(value: ir.GenericConst) -> State:
    """The state of a constant: a number if all elements are equal."""
    with reading(value) as array:
        if array.size == 0 or array.nbytes > UNIFORM_BYTES or array.dtype.kind not in "bifu":
            return VALID
        first = array.reshape(-1)[0]
        return constant(float(first)) if bool(np.all(array == first)) else VALID
