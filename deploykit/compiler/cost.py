"""The cost of a model, as formulas over its dims: floating-point operations, and bytes read and written.

Each arithmetic operation, comparison and math function on floats, and on the narrow integers of quantised models, is
one operation. The first value of a reduction is free. A block whose rule uses another algorithm than its definition
says how many operations an element takes (`OPERATIONS`). A model counts operator by operator, before fusion; each
operator reads its inputs and writes its outputs once. A kernel (`work`) counts after fusion, before it is scheduled. A
loop whose number of iterations depends on data counts once. Both branches of a model's `If` count; of the branches in a
kernel, only the larger one counts. A statement under a condition on a loop variable counts for the iterations that
fulfil it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.dims import as_expr, evaluate, free_vars, simplify
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.operators.anchors.conv import OPERATIONS
from deploykit.compiler.schedules.instances import SQUARES, instances_of
from deploykit.compiler.schedules.vloop import is_vloop
from deploykit.compiler.tir.rewriting import collect, substitute

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min)
_COMPARISON = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
_SPARE: dict[type, Callable[[IntExpr, IntExpr], IntExpr]] = {
    tirx.LT: lambda a, b: b - a - 1,
    tirx.LE: lambda a, b: b - a,
    tirx.GT: lambda a, b: a - b - 1,
    tirx.GE: lambda a, b: a - b,
}
"""For each comparison, an expression that is not negative if the comparison holds."""
_TYPICAL = 64
_FREE_CALLS = ("if_then_else", "reinterpret", "likely")


@dataclass(frozen=True)
class Cost:
    """`flops`: the number of operations. `traffic`: the number of bytes read and written."""

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
            # Simplified one by one: a sum of all would be nested too deeply for models with many operators.
            flops = simplify(flops + substitute(_flops(func.body), _arguments(func, call)))
            read = [argument.ty for argument in call.args[1].fields if isinstance(argument.ty, relax.TensorType)]
            for tensor in (*read, *_results(call)):
                traffic = simplify(traffic + _size(tensor))
    return Cost(flops, traffic)


def _results(call: ir.Call) -> list[relax.TensorType]:
    """The types of the tensors that a kernel writes."""
    results = call.ty_args[0]
    return list(results.fields) if isinstance(results, relax.TupleType) else [results]


def _arguments(func: tirx.PrimFunc, call: ir.Call) -> Mapping[tirx.Var, ir.Expr]:
    """The values, at this call, of the kernel's own shape variables and integer parameters."""
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


def work(func: tirx.PrimFunc) -> Cost | None:
    """The cost of one call of a kernel that is not scheduled yet, over its integer parameters and the variables of its
    shapes. None if the number of iterations of a loop depends on anything else. A kernel that runs once for each
    instance of a ragged batch may cost a multiple of `SQUARES`, the sum of the squared lengths, too.

    The bytes read or written of a tensor are at most its size, and at most what its loads and stores can reach. For
    example, looking up rows of a table costs only these rows.
    """
    flops: IntExpr = 0
    instances = instances_of(func) if is_vloop(func) else None
    accesses: dict[ir.Var, IntExpr] = dict(Counter(instances.arrays)) if instances else {}
    for trips, store, operations in _stores(instances.body if instances else func.body):
        flops = flops + operations
        for touched in (store.buffer, *(load.source for load in collect(store, ir.TensorLoad))):
            buffer = instances.packed.get(touched, touched) if instances else touched
            accesses[buffer] = accesses.get(buffer, 0) + trips
    if instances:
        flops = instances.total(flops)
        accesses = {buffer: instances.total(trips) for buffer, trips in accesses.items()}
    traffic: IntExpr = 0
    known = [SQUARES, *(param for param in func.params if not tirx.is_buffer_var(param))]
    for buffer in func.params:
        if tirx.is_buffer_var(buffer):
            known += [var for extent in buffer.ty.shape for var in free_vars(extent)]
            traffic = traffic + _moved(buffer, accesses.get(buffer, 0))
    total = Cost(simplify(flops), simplify(traffic))
    used = {*free_vars(total.flops), *free_vars(total.traffic)}
    return total if used <= set(known) else None


def effort(cost: Cost | None, *, vectors: bool) -> IntExpr:
    """An estimate of the time of a kernel, in sixteenths of a cycle of one core. A vector of operations takes a cycle
    (one operation, if the device has no vectors), and so do eight bytes. 0 if the cost is not known, or only by the
    squared lengths of a ragged batch, which a kernel does not get.

    The estimate only has to tell a microsecond from a millisecond.
    """
    if cost is None or SQUARES in (*free_vars(cost.flops), *free_vars(cost.traffic)):
        return 0
    return simplify(cost.flops * (1 if vectors else 16) + cost.traffic * 2)


def _moved(buffer: ir.Var, accesses: IntExpr) -> IntExpr:
    """The most bytes of a tensor that this many accesses can reach."""
    size, reach = _size(buffer.ty), accesses * np.dtype(str(buffer.ty.dtype)).itemsize
    spare = simplify(reach - size)
    if isinstance(spare, int) and spare >= 0:
        return size
    return simplify(tirx.min(as_expr(size), reach))


@dataclass(frozen=True)
class _Runs:
    """How often a statement runs: once for every value of the loop variables, each within a range `(first, end)`."""

    spans: Mapping[ir.Var, tuple[IntExpr, IntExpr]] = field(default_factory=dict)

    @property
    def count(self) -> IntExpr:
        total: IntExpr = 1
        for first, end in self.spans.values():
            total = total * (end - first)
        return total

    def inside(self, loop: tirx.For) -> _Runs:
        if not _is_shape(loop.extent):
            return self
        return _Runs({**self.spans, loop.loop_var: (loop.min, loop.min + loop.extent)})

    def under(self, condition: ir.Expr) -> _Runs:
        """The runs in which a condition holds, as far as it bounds a loop variable by sizes."""
        if isinstance(condition, tirx.And):
            return self.under(condition.a).under(condition.b)
        if not isinstance(condition, tirx.LT | tirx.LE | tirx.GT | tirx.GE):
            return self
        if not _is_shape(condition) or _is_element(condition.a):
            return self
        spare = simplify(_SPARE[type(condition)](condition.a, condition.b))
        used = [var for var in self.spans if var in free_vars(spare)]
        return self._bounded(used[0], spare) if len(used) == 1 else self

    def _bounded(self, var: ir.Var, spare: IntExpr) -> _Runs:
        """The runs in which `spare` is not negative, if it is the sum or difference of a size and the variable."""
        rest = simplify(substitute(spare, {var: tirx.const(0, "int64")}))
        first, end = self.spans[var]
        if simplify(spare - rest - var) == 0:
            first = tirx.max(as_expr(first), as_expr(0 - rest))
        elif simplify(spare - rest + var) == 0:
            end = tirx.min(as_expr(end), as_expr(rest + 1))
        return _Runs({**self.spans, var: (first, end)})


def _stores(statement: tirx.Stmt, runs: _Runs = _Runs()) -> Iterator[tuple[IntExpr, tirx.BufferStore, IntExpr]]:
    """Every store of a loop nest, how often it runs, and the total of its operations, over the kernel's own variables.
    Of two branches, only the one with more operations counts.
    """
    if isinstance(statement, tirx.For):
        yield from _stores(statement.body, runs.inside(statement))
    elif isinstance(statement, tirx.SeqStmt):
        for part in statement.seq:
            yield from _stores(part, runs)
    elif isinstance(statement, tirx.IfThenElse):
        if statement.else_case is None:
            yield from _stores(statement.then_case, runs.under(statement.condition))
        else:
            yield from _stores(max(statement.then_case, statement.else_case, key=_weight), runs)
    elif isinstance(statement, tirx.BufferStore):
        yield runs.count, statement, runs.count * _operations(statement.value)
    elif isinstance(statement, s_tir.SBlockRealize):
        each = statement.block.annotations.get(OPERATIONS)
        for count, store, operations in _stores(statement.block.body, runs):
            yield count, store, operations if each is None else _elements(store.buffer.ty) * int(each)
    elif isinstance(getattr(statement, "body", None), tirx.Stmt):
        yield from _stores(statement.body, runs)


def _flops(statement: tirx.Stmt) -> IntExpr:
    """The operations of a loop nest, over the kernel's own variables."""
    flops: IntExpr = 0
    for _trips, _store, operations in _stores(statement):
        flops = flops + operations
    return flops


def _weight(statement: tirx.Stmt) -> int:
    """The number of stores and operations with every variable equal to `_TYPICAL`, to compare branches."""
    total: IntExpr = 0
    for trips, _store, operations in _stores(statement):
        total = total + trips + operations
    return evaluate(total, dict.fromkeys(free_vars(total), _TYPICAL))


def _operations(value: ir.Expr) -> int:
    comparisons = [node for node in collect(value, _COMPARISON) if _is_element(node.a)]
    arithmetic = [node for node in collect(value, _ARITHMETIC) if _is_element(node)]
    calls = [node for node in collect(value, ir.Call) if _is_element(node) and _function(node) not in _FREE_CALLS]
    return len(comparisons) + len(arithmetic) + len(calls)


def _function(call: ir.Call) -> str:
    """The function's name without its dialect."""
    return str(call.op.name).rpartition(".")[2]


def _is_element(value: ir.Expr) -> bool:
    """Whether an expression computes with elements, as opposed to indices, which are int64."""
    return str(value.ty.dtype).startswith(("float", "int8", "uint8", "int16", "int32"))


def _is_shape(extent: ir.Expr) -> bool:
    """Whether an extent is known before the run. Otherwise it depends on a tensor or on another loop variable."""
    return not collect(extent, (ir.TensorLoad, ir.Call))


def _size(tensor: relax.TensorType) -> IntExpr:
    """Bytes of a tensor."""
    return _elements(tensor) * np.dtype(str(tensor.dtype)).itemsize


def _elements(tensor: relax.TensorType) -> IntExpr:
    size: IntExpr = 1
    for extent in tensor.shape:
        size = size * extent
    return size
