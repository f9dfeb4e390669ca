"""Joins products of one left operand with several constant matrices of one size into one product.

    q, k, v = x @ Q + a, x @ K + b, x @ V + c    ->    all = x @ [Q, K, V] + [a, b, c]
                                                       q, k, v = all[0], all[1], all[2]

The result is one kernel, whose parallel tasks share the left operand and stream all weights. Each part is contiguous,
so its readers keep the strides that they had. Constant addends are joined if each is one vector along the columns; a
product without addend gets zeros. The parts are moves (`fold_reshapes`), which disappear into their readers.

The pass applies to float32. Every reader of a part must be a kernel that reads it at another index than it writes, such
as a kernel that splits heads, or a product of two computed operands: these read parts in place. A kernel that computes
element by element on a product is an epilogue of that product, which therefore stays alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax, te, tirx

from deploykit.basics.mapped import forget
from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.decisions import Decision, Declined, Note, unheard
from deploykit.compiler.graph.bindings import Graph, arguments_of, operator_of, rewritten
from deploykit.compiler.graph.fold_reshapes import Move
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.schedules.kernel.stages import Stage, read
from deploykit.compiler.tir.values import at_place, const, static


def join_siblings(mod: ir.IRModule, note: Note = unheard, apart: Collection[str] = ()) -> ir.IRModule:
    """`mod`, with such products joined, but for those of variables whose names are in `apart`."""
    builder = relax.BlockBuilder(mod)
    return rewritten(mod, builder, lambda func: _Siblings(mod, builder, func, note, apart).rewritten)


@dataclass(frozen=True)
class _Member:
    """A product to join, its weight, and `result`: its sum with the addend, or the product itself without one."""

    product: relax.Var
    result: relax.Var
    weight: np.ndarray
    addend: np.ndarray | None


class _Siblings:
    """Joins the products of a function."""

    def __init__(
        self,
        mod: ir.IRModule,
        builder: relax.BlockBuilder,
        func: relax.Function,
        note: Note,
        apart: Collection[str],
    ) -> None:
        self.mod, self.builder, self.graph, self.note, self.apart = mod, builder, Graph(func), note, apart

    def rewritten(self, block: relax.BindingBlock) -> relax.BindingBlock:
        groups: dict[tuple[relax.Var, int], list[_Member]] = {}
        for binding in block.bindings:
            value = self.graph.values.get(binding.var)
            if value is not None and operator_of(value) == "relax.matmul":
                member = self.member(binding.var)
                if isinstance(member, Declined):
                    self.note(Decision("join_matmuls", binding.var.name, member))
                else:
                    groups.setdefault((value.args[0], member.weight.shape[1]), []).append(member)
        first: dict[relax.Var, list[_Member]] = {}
        for members in groups.values():
            names = [member.product.name for member in members]
            if len(members) > 1:
                first[members[0].product] = members
                self.note(Decision("join_matmuls", names[0], f"one product with {', '.join(names[1:])}"))
            else:
                alone = Declined("no other product has its left operand and as many columns")
                self.note(Decision("join_matmuls", names[0], alone))
        if not first:
            return block
        gone = {var for members in first.values() for m in members for var in (m.product, m.result)}
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            if binding.var in first:
                bindings.extend(self.product(first[binding.var]))
            elif binding.var not in gone:
                bindings.append(binding)
        return type(block)(bindings)

    def member(self, product: relax.Var) -> _Member | Declined:
        """The member for `product`, or the reason why it cannot be joined."""
        left, right = self.graph.values[product].args
        if product.name in self.apart:
            return Declined("it stays in float32, which others may not")
        if not isinstance(left, relax.Var) or not isinstance(right, ir.GenericConst):
            return Declined("it is no product of a computed tensor with a constant")
        if len(right.ty.shape) != 2 or len(left.ty.shape) < 2:
            return Declined("it is no product with one matrix")
        if any(str(x.ty.dtype) != "float32" for x in (left, right, product)):
            return Declined("it is not in float32")
        weight = array_of(right)
        readers = self.graph.readers.get(product, [])
        if len(readers) == 1 and self.graph.uses[product] == 1:
            addend = self.addend(product, readers[0])
            if addend is not None and self.read_in_place(readers[0]):
                return _Member(product, readers[0], weight, addend)
        if self.read_in_place(product):
            return _Member(product, product, weight, None)
        return Declined("what reads it computes on it element by element, in one kernel with it")

    def addend(self, product: relax.Var, total: relax.Var) -> np.ndarray | None:
        """The constant vector along the columns that `total` adds to `product`; None if there is none."""
        stage = self.pointwise(total)
        if stage is None or stage.store is None or not isinstance(stage.store.value, tirx.Add):
            return None
        fields = list(self.graph.values[total].args[1].fields)
        params = dict(zip(self.mod[self.graph.values[total].args[0]].params, fields, strict=False))
        place = [axis.var for axis in stage.axes]
        for own, other in ((stage.store.value.a, stage.store.value.b), (stage.store.value.b, stage.store.value.a)):
            if not all(isinstance(side, ir.TensorLoad) for side in (own, other)):
                return None
            given = params.get(other.source)
            exact = params.get(own.source) == product and at_place(own.indices, place)
            if exact and isinstance(given, ir.GenericConst) and at_place(other.indices, place[-1:]):
                vector = array_of(given)
                return vector if static(total.ty.shape[-1]) == vector.size else None
        return None

    def read_in_place(self, var: relax.Var) -> bool:
        """Whether all readers of `var` can read it in place, without a copy of it in memory."""
        readers = self.graph.readers.get(var, [])
        if not readers or self.graph.uses[var] != len(readers):
            return False
        return all(self.reads_in_place(reader, var) for reader in readers)

    def reads_in_place(self, reader: relax.Var, var: relax.Var) -> bool:
        value = self.graph.values[reader]
        if operator_of(value) == "relax.reshape":
            return self.read_in_place(reader)
        if operator_of(value) == "relax.matmul":
            return not isinstance(value.args[1], ir.GenericConst)
        stage = self.pointwise(reader)
        if stage is None:
            return False
        place = [axis.var for axis in stage.axes]
        pairs = zip(self.mod[value.args[0]].params, arguments_of(value), strict=False)
        sources = [param for param, operand in pairs if operand == var]
        loads = [load for load in stage.loads if any(load.source.same_as(source) for source in sources)]
        return not any(at_place(load.indices, place) for load in loads)

    def pointwise(self, var: relax.Var) -> Stage | None:
        value = self.graph.values[var]
        if operator_of(value) != "relax.call_tir":
            return None
        nest = read(self.mod[value.args[0]])
        if isinstance(nest, Declined) or len(nest.stages) != 1:
            return None
        (stage,) = nest.stages
        return stage if isinstance(stage, Stage) and stage.pointwise else None

    def product(self, members: Sequence[_Member]) -> list[relax.Binding]:
        """The bindings of the joint product and its parts."""
        left = self.graph.values[members[0].product].args[0]
        depth, columns = members[0].weight.shape
        lead = list(left.ty.shape.values)[:-1]
        unit = [1] * (len(lead) - 1)
        weight = np.stack([member.weight for member in members]).reshape(len(members), *unit, depth, columns)
        joint = relax.Var("joint", relax.TensorType([const(len(members)), *lead, const(columns)], "float32"))
        for member in members:
            forget(member.weight)
        product = relax.op.matmul(left, constant(weight), out_dtype="float32")
        bindings: list[relax.Binding] = [relax.VarBinding(joint, product)]
        if any(member.addend is not None for member in members):
            nothing = np.zeros(columns, "float32")
            addends = np.stack([nothing if m.addend is None else m.addend for m in members])
            total = relax.Var("joint_sum", joint.ty)
            added = call_te(self.builder, _added, joint, constant(addends), name="add")
            bindings.append(relax.VarBinding(total, added))
            joint = total
        parts = [_part(joint, index).call(self.builder) for index in range(len(members))]
        return [*bindings, *(relax.VarBinding(m.result, part) for m, part in zip(members, parts, strict=True))]


def _added(x: te.Tensor, addend: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i) + addend(i[0], i[-1]), name="add")


def _part(joint: relax.Var, index: int) -> Move:
    """The move that takes one of the tensors along the first dim of `joint`."""
    shape = tuple(joint.ty.shape.values)[1:]
    axes = tuple(ir.Var(f"i{dim}", "int64") for dim in range(len(shape)))
    return Move(joint, shape, axes, (const(index), *axes))
