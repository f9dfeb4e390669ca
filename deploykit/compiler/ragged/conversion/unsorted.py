"""Removes a sort of the sequences of a batch, as PyTorch exports it around recurrent layers.

    places = TopK(lengths)             the places of all sequences, the longest first
    sorted = gather(x, places)         along the batch
    y = f(sorted)
    result = gather(y, inverse)        inverse: 0, 1, 2, ... scattered to the places

Where `f` computes each sequence from itself alone, which `proof` finds out afterwards, the result is `f(x)`. Every
tensor is in the order of the batch, in that of a sort, or in any order, if it is the same for all sequences. No kernel
may combine tensors in different orders, results must be in that of the batch, and places must serve for nothing else;
otherwise the function stays as it is.
"""

from __future__ import annotations

from typing import TypeAlias

from tvm import ir, relax, tirx

from deploykit.compiler.graph.bindings import arguments_of, with_blocks
from deploykit.compiler.operators.building.index_checks import is_check
from deploykit.compiler.operators.building.kernel_calls import is_tensor
from deploykit.compiler.operators.ranking import TOP
from deploykit.compiler.operators.scatter import SCATTER
from deploykit.compiler.ragged.conversion.contents import RaggedDim
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call
from deploykit.compiler.ragged.conversion.places import equal
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, is_zero, substitute

Order: TypeAlias = relax.Var | str
"""`ANY`, `BATCH`, or the variable of the results of a kernel that sorts."""
ANY, BATCH = "any", "batch"


def unsorted(mod: ir.IRModule, name: str, dim: RaggedDim) -> ir.IRModule:
    """`mod`, with such sorts removed from the function `name`."""
    func = mod[name]
    orders = _Orders(mod, dim)
    try:
        blocks = orders.blocks(func)
        outside = orders.of(func.body.body) not in (ANY, BATCH)
    except _Mixed:
        return mod
    if outside or not orders.same:
        return mod
    builder = relax.BlockBuilder(mod)
    builder.update_func(mod.get_global_var(name), with_blocks(func, blocks, substitute(func.body.body, orders.same)))
    unused = relax.transform.DeadCodeElimination([name])
    result: ir.IRModule = unused(relax.transform.Normalize()(builder.get()))
    return result


class _Mixed(Exception):
    """Tensors in different orders meet, or places serve for something else."""


class _Orders:
    """What is known of the variables of a function."""

    def __init__(self, mod: ir.IRModule, dim: RaggedDim) -> None:
        self.mod, self.dim = mod, dim
        self.order: dict[relax.Expr, Order] = {}
        self.sorts: dict[relax.Expr, relax.Expr] = {}
        """What a kernel sorts, by the variable of its results."""
        self.places: dict[relax.Expr, relax.Var] = {}
        self.inverses: dict[relax.Expr, relax.Var] = {}
        """The sorts of which tensors hold the places, or the way back."""
        self.numbers: set[relax.Expr] = set()
        """The tensors that hold 0, 1, 2 and so on for the sequences."""
        self.same: dict[ir.Var, relax.Expr] = {}
        """What replaces a variable."""

    def blocks(self, func: relax.Function) -> list[relax.BindingBlock]:
        """The blocks of a function without the bindings that are replaced. Raises `_Mixed`."""
        for param in func.params:
            self.order[param] = BATCH if self.has_batch(param) else ANY
        made = []
        for block in func.body.blocks:
            bindings: list[relax.Binding] = []
            for binding in block.bindings:
                value = substitute(binding.value, self.same)
                if isinstance(binding, relax.MatchCast):
                    self.order[binding.var] = self.of(binding.value)
                    bindings.append(relax.MatchCast(binding.var, value, binding.ty))
                    continue
                self.bind(binding.var, binding.value)
                if binding.var not in self.same:
                    bindings.append(relax.VarBinding(binding.var, value))
            made.append(type(block)(bindings))
        return made

    def has_batch(self, tensor: relax.Expr) -> bool:
        return is_tensor(tensor) and any(extent.same_as(self.dim.batch) for extent in tensor.ty.shape.values)

    def of(self, value: relax.Expr) -> Order:
        """The order of what is computed from the tensors in `value`."""
        orders = {self.order.get(var, ANY) for var in collect(value, relax.Var)} - {ANY}
        used = collect(value, relax.Var)
        if len(orders) > 1 or any(var in self.places or var in self.inverses for var in used):
            raise _Mixed
        return orders.pop() if orders else ANY

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        source = value.args[1] if is_check(value) else value
        for known in (self.places, self.inverses):
            if source in known:
                known[var] = known[source]
                return
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self.sorts:
            self.bind_sorted(var, value.tuple_value, value.index)
            return
        call = kernel_call(self.mod, value)
        if call is None:
            self.order[var] = self.of(value)
        elif TOP in call.annotations and self.order_of_batch(call):
            self.sorts[var] = arguments_of(value)[0]
        elif (way := self.way_back(call, value)) is not None:
            self.inverses[var] = way
        elif (found := self.gathered(call)) is not None:
            self.same[var], self.order[var] = substitute(found[0], self.same), found[1]
        else:
            self.bind_kernel(var, value, call)

    def bind_sorted(self, var: relax.Var, sort: relax.Var, index: int) -> None:
        """Note what a result of a sort is: the sorted elements or their places."""
        if index == 0:
            self.same[var], self.order[var] = substitute(self.sorts[sort], self.same), sort
        elif index == 1:
            self.places[var] = sort

    def bind_kernel(self, var: relax.Var, value: relax.Expr, call: KernelCall) -> None:
        order = self.of(value)
        if order == ANY and not self.is_uniform(call):
            order = BATCH
            if self.counts(call):
                self.numbers.add(var)
        self.order[var] = order

    def order_of_batch(self, call: KernelCall) -> bool:
        """Whether a kernel sorts all elements of a tensor that has one for each sequence, in the order of the batch."""
        (operand,) = call.operands.values()
        return self.of(operand) == BATCH and self.one_each(*call.operands, *call.results[:2])

    def one_each(self, *buffers: Buffer) -> bool:
        """Whether tensors have one element for each sequence."""
        return all(len(b.shape) == 1 and b.shape[0].same_as(self.dim.batch) for b in buffers)

    def way_back(self, call: KernelCall, value: relax.Expr) -> relax.Var | None:
        """The sort for which a kernel scatters the numbers of the sequences to their places."""
        if SCATTER not in call.annotations or not self.one_each(*call.operands, *call.results):
            return None
        _, places, numbers = arguments_of(value)
        return self.places.get(places) if numbers in self.numbers else None

    def gathered(self, call: KernelCall) -> tuple[relax.Expr, Order] | None:
        """What a kernel gathers along the batch at the places of a sort, or on the way back, and its new order."""
        stage = call.pointwise
        if stage is None or stage.store is None:
            return None
        load = stage.store.value
        if not isinstance(load, ir.TensorLoad) or load.source not in call.operands:
            return None
        operand = call.operands[load.source]
        places = None
        for index, axis in zip(load.indices, stage.axes, strict=False):
            if not index.same_as(axis.var) and not (is_zero(index) and axis.static == 1):
                if places is not None or not axis.extent.same_as(self.dim.batch):
                    return None
                places = call.operands.get(_place(index, axis.var))
        shapes = zip(load.source.shape, call.results[0].shape, strict=False)
        if len(load.indices) != len(stage.axes) or not all(equal(a, b) for a, b in shapes):
            return None
        if places in self.places and self.of(operand) == BATCH:
            return operand, self.places[places]
        if places in self.inverses and self.of(operand) is self.inverses[places]:
            return operand, BATCH
        return None

    def is_uniform(self, call: KernelCall) -> bool:
        """Whether a kernel surely computes the same for all sequences."""
        if not any(extent.same_as(self.dim.batch) for buffer in call.results for extent in buffer.shape):
            return True
        for stage in call.stages:
            if not isinstance(stage, Stage) or stage.store is None:
                return False
            along = {axis.var for axis in stage.axes if axis.extent.same_as(self.dim.batch)}
            if not along.isdisjoint(collect(stage.store.value, ir.Var)):
                return False
        return bool(call.stages)

    def counts(self, call: KernelCall) -> bool:
        """Whether the result of a kernel is 0, 1, 2 and so on for the sequences."""
        stage = call.pointwise
        if stage is None or stage.store is None:
            return False
        return self.one_each(*call.results) and bool(stage.store.value.same_as(stage.axes[0].var))


def _place(index: Expr, own: ir.Var) -> Buffer | None:
    """The buffer that an index comes from, element for element of the axis `own`, but for being counted from the end
    and for limits."""
    match index:
        case ir.TensorLoad():
            return index.source if len(index.indices) == 1 and index.indices[0].same_as(own) else None
        case tirx.Min() | tirx.Max():
            sides = [side for side in (index.a, index.b) if collect(side, ir.TensorLoad)]
            return _place(sides[0], own) if len(sides) == 1 else None
        case tirx.Select() if isinstance(index.condition, tirx.LT) and is_zero(index.condition.b):
            return _place(index.false_value, own)
        case tirx.Cast():
            return _place(index.value, own)
    return None
