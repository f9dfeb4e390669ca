"""What a model costs, as formulas over its dims: floating-point operations, and bytes read and written.

Every operator counts as it stands before fusion: each arithmetic operation, comparison and math function on floats is
one operation, the first value of a reduction is free; each kernel reads its inputs and writes its outputs once.
What is repeated as often as the data say counts once: the body of a loop, both branches of an `if`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.dims import simplify
from deploykit.compiler.program.ir import IntExpr
from deploykit.compiler.schedules.nest import collect, substitute
from deploykit.frontends.model import ImportedModel

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min)
_COMPARISON = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
_FREE_CALLS = ("if_then_else", "reinterpret", "likely")


@dataclass(frozen=True)
class Cost:
    """`flops`: floating-point operations. `traffic`: bytes read and written."""

    flops: IntExpr
    traffic: IntExpr


def cost(model: ImportedModel) -> Cost:
    """The cost of one run of the model."""
    module = relax.transform.LegalizeOps()(model.module)
    flops: IntExpr = 0
    traffic: IntExpr = 0
    for function in module.functions.values():
        if not isinstance(function, relax.Function):
            continue
        for call in collect(function, ir.Call):
            if call.op != ir.Op.get("relax.call_tir"):
                continue
            func = module[call.args[0]]
            flops = flops + substitute(_flops(func.body), _arguments(func, call))
            read = [argument.ty for argument in call.args[1].fields if isinstance(argument.ty, relax.TensorType)]
            for tensor in (*read, *_results(call)):
                traffic = traffic + _size(tensor)
    return Cost(simplify(flops), simplify(traffic))


def _results(call: ir.Call) -> list[relax.TensorType]:
    """The types of what a kernel writes."""
    results = call.ty_args[0]
    return list(results.fields) if isinstance(results, relax.TupleType) else [results]


def _arguments(func: tirx.PrimFunc, call: ir.Call) -> Mapping[tirx.Var, ir.Expr]:
    """What the kernel's own shape variables and integer parameters stand for at this call."""
    values: dict[tirx.Var, ir.Expr] = {}
    given = [*call.args[1].fields, *_results(call)]
    for param, argument in zip(func.params, given, strict=True):
        if not tirx.is_buffer_var(param):
            values[param] = argument
            continue
        tensor = argument if isinstance(argument, relax.TensorType) else argument.ty
        for own, extent in zip(param.ty.shape, tensor.shape, strict=True):
            if isinstance(own, tirx.Var):
                values.setdefault(own, extent)
    return values


def _flops(statement: tirx.Stmt) -> IntExpr:
    """Operations of a loop nest, over the kernel's own variables."""
    if isinstance(statement, tirx.For):
        inner = _flops(statement.body)
        return inner * statement.extent if _is_shape(statement.extent) else inner
    if isinstance(statement, tirx.SeqStmt):
        total: IntExpr = 0
        for part in statement.seq:
            total = total + _flops(part)
        return total
    if isinstance(statement, tirx.IfThenElse):
        return _flops(statement.then_case) + (_flops(statement.else_case) if statement.else_case else 0)
    if isinstance(statement, tirx.BufferStore):
        return _operations(statement.value)
    if isinstance(statement, s_tir.SBlockRealize):
        return _flops(statement.block.body)
    body = getattr(statement, "body", None)
    return _flops(body) if isinstance(body, tirx.Stmt) else 0


def _operations(value: ir.Expr) -> int:
    comparisons = [node for node in collect(value, _COMPARISON) if _is_float(node.a)]
    arithmetic = [node for node in collect(value, _ARITHMETIC) if _is_float(node)]
    calls = [node for node in collect(value, ir.Call) if _is_float(node) and _function(node) not in _FREE_CALLS]
    return len(comparisons) + len(arithmetic) + len(calls)


def _function(call: ir.Call) -> str:
    """The function's name without its dialect."""
    return str(call.op.name).rpartition(".")[2]


def _is_float(value: ir.Expr) -> bool:
    return "float" in str(value.ty.dtype)


def _is_shape(extent: ir.Expr) -> bool:
    """Whether an extent is known before the run, rather than read from a tensor or another loop's variable."""
    return not collect(extent, (ir.TensorLoad, ir.Call))


def _size(tensor: relax.TensorType) -> IntExpr:
    """Bytes of a tensor."""
    size: IntExpr = np.dtype(str(tensor.dtype)).itemsize
    for extent in tensor.shape:
        size = size * extent
    return size
