"""Proves that each instance of a padded model is computed from that instance alone, so that a run may compute a batch
in groups of instances.

It declines a model with

* an input or an output that is no sequence of instances: the batch is not its first axis, or an output has the ragged
  dim twice, so that only the run knows where the part of an instance begins;
* a kernel that combines instances, takes elements of others, or computes with the number of an instance or of all;
* a recurrent layer, whose products have a row for each instance, and would have few in a group;
* a check, or a size, that depends on the greatest length, which may be less in a group;
* states.
"""

from __future__ import annotations

from collections.abc import Iterable

import tvm_ffi
from tvm import ir, relax, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.graph.bindings import operator_of
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.operators.building import control_flow
from deploykit.compiler.operators.building.index_checks import checked_bounds, is_check
from deploykit.compiler.ragged.conversion.contents import RaggedDim, axes_of
from deploykit.compiler.ragged.conversion.evaluation import stage_axes
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call
from deploykit.compiler.ragged.conversion.places import equal, product
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Expr, collect, replace_loads
from deploykit.compiler.tir.values import const, dtype_of


def mixed(model: ImportedModel, mod: ir.IRModule, func: relax.Function, dim: RaggedDim) -> Declined | None:
    """Why `func`, the function of `mod` that `model` has become, does not compute each instance alone; None if it
    does."""
    if model.states:
        return Declined("it has states")
    if model.data_dims or any(_mentions([r.condition, *r.values], dim) for r in model.requirements):
        return Declined("a size, or a check of sizes, depends on the batch")
    result = func.body.body
    types = result.ty.fields if isinstance(result.ty, relax.TupleType) else [result.ty]
    outputs = zip(model.only.outputs, types, strict=True)
    ports = [(f"the input '{param.name}'", list(param.ty.shape.values), False) for param in func.params]
    ports += [(f"the output '{port.name}'", list(type_.shape.values), True) for port, type_ in outputs]
    for name, shape, written in ports:
        if (written or _mentions(shape, dim)) and not (shape and shape[0].same_as(dim.batch)):
            return Declined(f"{name} does not begin with '{dim.batch.name}'")
        if written and len(axes_of(shape, dim)[1]) > 1:
            return Declined(f"{name} has '{dim.extent.name}' twice")
    for block in func.body.blocks:
        for binding in block.bindings:
            reason = _binding(mod, binding, dim)
            if reason is not None:
                return Declined(f"'{binding.var.name}': {reason}")
    return None


def _mentions(values: Iterable[object], dim: RaggedDim) -> bool:
    """Whether one of some expressions depends on the batch or on the ragged dim."""
    used = {var for value in values if not isinstance(value, int) for var in collect(value, ir.Var)}
    return dim.batch in used or dim.extent in used


def _binding(mod: ir.IRModule, binding: relax.Binding, dim: RaggedDim) -> str | None:
    value = binding.value
    call = kernel_call(mod, value)
    if call is not None:
        return _kernel(call, dim)
    if is_check(value):
        bounded = _mentions([bound for pair in checked_bounds(value) for bound in pair], dim)
        return "it compares indices with a dim of the batch" if bounded else None
    operator = operator_of(value)
    if operator == "relax.reshape":
        return _reshape(value.args[0].ty.shape, binding.var.ty.shape, dim)
    if operator == "relax.matmul":
        left, right = (list(operand.ty.shape.values) for operand in value.args)
        contracted = (left[-1], right[-2] if len(right) > 1 else right[-1])
        return "it combines instances" if any(extent.same_as(dim.batch) for extent in contracted) else None
    plain = isinstance(value, relax.Var | ir.GenericConst | relax.Tuple | relax.TupleGetItem)
    return None if plain and isinstance(binding, relax.VarBinding) else f"'{control_flow.called(value) or operator}'"


def _reshape(old: Iterable[Expr], new: Iterable[Expr], dim: RaggedDim) -> str | None:
    """A reshape must keep the batch as an axis of its own."""
    shapes = [list(shape) for shape in (old, new)]
    found = [[axis for axis, extent in enumerate(shape) if extent.same_as(dim.batch)] for shape in shapes]
    if not any(found):
        joined = any(dim.batch in collect(extent, ir.Var) for shape in shapes for extent in shape)
        return "it joins the batch with other dims" if joined else None
    if [len(axes) for axes in found] != [1, 1]:
        return "it joins the batch with other dims"
    before = [product(shape[: axes[0]]) for shape, axes in zip(shapes, found, strict=True)]
    return None if equal(*before) else "it moves the batch"


def _kernel(call: KernelCall, dim: RaggedDim) -> str | None:
    buffers = (*call.operands, *call.results)
    if call.layer is not None:
        return "a recurrent layer computes all instances together"
    if call.staged:
        reasons = (_stage(stage, dim) for stage in call.stages if isinstance(stage, Stage))
        return next((reason for reason in reasons if reason is not None), None)
    scan = call.scan is not None and all(axes_of(list(buffer.shape), dim)[1] for buffer in call.results)
    loops = not scan and any(_mentions(buffer.shape, dim) for buffer in buffers)
    return "it is computed by loops in order" if loops else None


def _stage(stage: Stage, dim: RaggedDim) -> str | None:
    """A stage must touch elements of its own instance only, and use the number of the instance for nothing else."""
    own = stage_axes(stage, dim).batch
    if any(axis.extent.same_as(dim.batch) for axis in stage.reduce):
        return "it combines instances"
    touched = [(load.source, load.indices) for load in stage.loads]
    touched += [(store.buffer, store.indices) for store in stage.stores]
    computed: list[object] = [stage.guard] if stage.guard is not None else []
    for statement in (stage.body, stage.init, stage.epilogue):
        computed += [] if statement is None else [_values(statement)]
    for buffer, indices in touched:
        for index, extent in zip(indices, buffer.shape, strict=True):
            if not extent.same_as(dim.batch):
                computed += [extent, index]
            elif own is None or not index.same_as(own.var):
                return "it takes elements of other instances"
    used = {var for value in computed for var in collect(replace_loads(value, _nothing), ir.Var)}
    if own is not None and not all(any(n.same_as(dim.batch) for n in store.buffer.shape) for store in stage.stores):
        return "it stores elements of several instances in one place"
    numbered = dim.batch in used or (own is not None and own.var in used)
    return "it computes with the number of an instance or of all" if numbered else None


def _values(statement: tirx.Stmt) -> tirx.Stmt:
    """What a statement computes, without the places where it is stored."""
    result: tirx.Stmt = tvm_ffi.structural_map(statement, (tirx.BufferStore, lambda store: tirx.Evaluate(store.value)))
    return result


def _nothing(load: ir.TensorLoad) -> Expr:
    return const(0) if dtype_of(load) == "int64" else tirx.const(0, dtype_of(load))
