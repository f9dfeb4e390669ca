"""Row kernels: kernels that can run row by row together become one.

Fusion by classes of kernels stops at the second reduction: a layer normalisation written as ReduceMean, Sub, Pow,
ReduceMean, Add, Sqrt, Div, Mul and Add is three kernels, with all the data written and read between them. Here kernels
of a block join, whatever operators they come from, where

* the first one reduces, and what any but the last one computes is used by the others only;
* all of their stages run under one loop over rows (`schedules.reduction.row_kernels`), each reduction giving one number
  a row.

First, kernels that read a result of the group join, in the block's order; the largest such group that meets the
conditions is kept. Then elementwise kernels join that compute an operand for nobody else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tvm import ir, relax, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.graph.bindings import Graph, arguments_of, operator_of, rewritten
from deploykit.compiler.graph.merge_kernels import merge_kernels, merged_kernel
from deploykit.compiler.graph.outline import outlined, same_call
from deploykit.compiler.schedules.driver import prepared
from deploykit.compiler.schedules.kernel.stages import Nest, Stage
from deploykit.compiler.schedules.pointwise.elementwise import guarded
from deploykit.compiler.schedules.reduction.row_kernels import rows_of

MOST_KERNELS = 12
"""Kernels of a group."""


def fuse_rows(mod: ir.IRModule) -> ir.IRModule:
    """`mod`, whose kernels are fused by class already, with groups of kernels over the same rows as one kernel each."""
    builder, kernels = relax.BlockBuilder(mod), _Kernels(mod)
    result = rewritten(mod, builder, lambda func: lambda block: _Block(kernels, builder, block, func).rewritten())
    return merge_kernels(result)


class _Kernels:
    """What is known of the kernels of a module."""

    def __init__(self, mod: ir.IRModule) -> None:
        self.mod = mod
        self._stages: dict[ir.GlobalVar, tuple[Stage, ...]] = {}

    def stages(self, value: relax.Expr) -> tuple[Stage, ...]:
        """The stages of the kernel with one result that `value` calls, if all of them can run by rows."""
        if operator_of(value) != "relax.call_tir":
            return ()
        if not isinstance(value.ty_args[0], relax.TensorType):
            return ()
        name = value.args[0]
        if name not in self._stages:
            self._stages[name] = _by_rows(prepared(self.mod[name]))
        return self._stages[name]

    def run_by_rows(self, group: Sequence[relax.Binding]) -> bool:
        """Whether the bindings, as one kernel, are one loop over rows."""
        names = dict.fromkeys(binding.value.args[0] for binding in group)
        builder = relax.BlockBuilder(ir.IRModule({name: self.mod[name] for name in names}))

        def emitted(binding: relax.Binding, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
            return same_call(builder, binding.value, values)

        call = outlined(builder, "rows", group, emitted)
        mod = builder.get()
        return bool(_by_rows(prepared(merged_kernel(mod, mod[call.op]).func)))


def _by_rows(nest: Nest | Declined) -> tuple[Stage, ...]:
    """The stages of a kernel that is one loop over rows, or one stage for which that has to be seen; else none."""
    if isinstance(nest, Declined):
        return ()
    stages = tuple(stage for stage in nest.stages if isinstance(stage, Stage))
    if len(stages) != len(nest.stages) or not all(_plain(stage) for stage in stages):
        return ()
    if len(stages) == 1:
        return stages
    rows = rows_of(stages, nest.temporaries, ())
    if rows is None:
        return ()
    inner = [axis for stage in rows.stages if stage.reduce for axis in stage.axes]
    return stages if all(axis.static == 1 for axis in inner) else ()


def _plain(stage: Stage) -> bool:
    """Whether a stage is elementwise, or a reduction of whole axes, and reads nothing under a condition."""
    if stage.store is None or guarded(stage.store.value) or not (stage.pointwise or stage.combine):
        return False
    axes = {axis.var for axis in (*stage.axes, *stage.reduce)}
    return all(index in axes or isinstance(index, tirx.IntImm) for load in stage.loads for index in load.indices)


class _Block:
    """A binding block at work."""

    def __init__(
        self, kernels: _Kernels, builder: relax.BlockBuilder, block: relax.BindingBlock, func: relax.Function
    ) -> None:
        self.kernels, self.builder, self.block = kernels, builder, block
        self.bindings = {binding.var: binding for binding in block.bindings}
        self.order = {var: position for position, var in enumerate(self.bindings)}
        graph = Graph(func)
        self.uses = graph.uses
        self.readers = {var: [r for r in found if r in self.bindings] for var, found in graph.readers.items()}

    def rewritten(self) -> relax.BindingBlock:
        """The block with each group as a call of one function."""
        taken: set[relax.Var] = set()
        calls: dict[relax.Var, relax.Call] = {}
        for var, binding in self.bindings.items():
            if var in taken or not any(stage.reduce for stage in self.kernels.stages(binding.value)):
                continue
            group = self.with_operands(self.with_readers(var, taken), taken)
            if len(group) > 1:
                taken.update(group)
                calls[group[-1]] = self.call(group)
        if not calls:
            return self.block
        bindings = [
            relax.VarBinding(var, calls[var]) if var in calls else binding
            for var, binding in self.bindings.items()
            if var in calls or var not in taken
        ]
        return type(self.block)(bindings)

    def with_readers(self, first: relax.Var, taken: Collection[relax.Var]) -> list[relax.Var]:
        """The largest group that begins with `first`."""
        group = best = [first]
        while len(group) < MOST_KERNELS:
            readers = {reader for var in group for reader in self.readers.get(var, []) if reader not in group}
            following = min(readers, key=self.order.__getitem__, default=None)
            if following is None or following in taken or not self.kernels.stages(self.bindings[following].value):
                break
            group = [*group, following]
            if self.closed(group):
                if not self.run_by_rows(group):
                    break
                best = group
        return best

    def with_operands(self, group: list[relax.Var], taken: Collection[relax.Var]) -> list[relax.Var]:
        """`group` with the elementwise kernels that compute its operands."""
        operands = [operand for var in group for operand in arguments_of(self.bindings[var].value)]
        for operand in dict.fromkeys(operands):
            if operand in group or operand in taken or operand not in self.bindings or len(group) == MOST_KERNELS:
                continue
            stages = self.kernels.stages(self.bindings[operand].value)
            larger = [operand, *group]
            if len(stages) == 1 and stages[0].pointwise and self.closed(larger) and self.run_by_rows(larger):
                return self.with_operands(sorted(larger, key=self.order.__getitem__), taken)
        return group

    def closed(self, group: Sequence[relax.Var]) -> bool:
        """Whether nothing but the last result is used by others."""
        return all(self.uses[var] == sum(reader in group for reader in self.readers.get(var, [])) for var in group[:-1])

    def run_by_rows(self, group: Sequence[relax.Var]) -> bool:
        return self.kernels.run_by_rows([self.bindings[var] for var in group])

    def call(self, group: Sequence[relax.Var]) -> relax.Call:
        """A call of a new function that computes the group."""

        def emitted(binding: relax.Binding, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
            return same_call(self.builder, binding.value, values)

        bindings = [self.bindings[var] for var in group]
        names = [binding.value.args[0].name_hint.removeprefix("fused_") for binding in bindings]
        return outlined(self.builder, "_".join(["fused", *names]), bindings, emitted)
