"""Fuses kernels that can run row by row into one.

Fusion by classes of kernels stops at the second reduction. A layer normalisation written as ReduceMean, Sub, Pow,
ReduceMean, Add, Sqrt, Div, Mul and Add then becomes three kernels, with all data written and read between them. This
pass joins kernels of a block, whatever operators they come from, if

* the first one reduces, and only kernels of the group use the results of all but the last one;
* all their stages can run under one loop over rows (`schedules.reduction.row_kernels`), where each reduction gives one
  number per row.

First, kernels that read a result of the group join, in the block's order; the largest such group that meets the
conditions is kept. Then elementwise kernels join if they compute an operand that only the group uses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tvm import ir, relax, tirx

from deploykit.compiler.decisions import Decision, Declined, Note, unheard
from deploykit.compiler.graph.bindings import Graph, arguments_of, operator_of, rewritten
from deploykit.compiler.graph.merge_kernels import merge_kernels
from deploykit.compiler.graph.outline import one_kernel, outlined, same_call
from deploykit.compiler.schedules.driver import prepared
from deploykit.compiler.schedules.kernel.stages import Nest, Stage
from deploykit.compiler.schedules.pointwise.elementwise import guarded
from deploykit.compiler.schedules.reduction.row_kernels import rows_of

MOST_KERNELS = 12
"""The most kernels of a group."""


def fuse_rows(mod: ir.IRModule, note: Note = unheard) -> ir.IRModule:
    """`mod`, in which each group of kernels over the same rows is one kernel. Fusion by class must have run before."""
    builder, kernels = relax.BlockBuilder(mod), _Kernels(mod)
    result = rewritten(mod, builder, lambda func: lambda block: _Block(kernels, builder, block, func).rewritten(note))
    return merge_kernels(result)


class _Kernels:
    """The stages of a module's kernels, cached."""

    def __init__(self, mod: ir.IRModule) -> None:
        self.mod = mod
        self._stages: dict[ir.GlobalVar, tuple[Stage, ...] | Declined] = {}

    def stages(self, value: relax.Expr) -> tuple[Stage, ...] | Declined:
        """The stages of the kernel that `value` calls, if it has one result and all stages can run by rows."""
        if operator_of(value) != "relax.call_tir":
            return Declined("it is no kernel")
        if not isinstance(value.ty_args[0], relax.TensorType):
            return Declined("it has several results")
        name = value.args[0]
        if name not in self._stages:
            self._stages[name] = _by_rows(prepared(self.mod[name]))
        return self._stages[name]

    def together(self, group: Sequence[relax.Binding]) -> tuple[Stage, ...] | Declined:
        """The stages of the bindings' kernels as one kernel, if they form one loop over rows."""
        return _by_rows(prepared(one_kernel(self.mod, group)))


def _by_rows(nest: Nest | Declined) -> tuple[Stage, ...] | Declined:
    """The stages of a kernel that is one loop over rows. A kernel of a single stage is not checked yet."""
    if isinstance(nest, Declined):
        return nest
    stages = tuple(stage for stage in nest.stages if isinstance(stage, Stage))
    if len(stages) != len(nest.stages) or not all(_plain(stage) for stage in stages):
        return Declined("it is more than elementwise stages and reductions of whole axes")
    if len(stages) == 1:
        return stages
    rows = rows_of(stages, nest.temporaries, ())
    if isinstance(rows, Declined):
        return rows
    inner = [axis for stage in rows.stages if stage.reduce for axis in stage.axes]
    return stages if all(axis.static == 1 for axis in inner) else Declined("a row has more than one sum")


def _plain(stage: Stage) -> bool:
    """Whether a stage is elementwise, or a reduction of whole axes, and reads nothing under a condition."""
    if stage.store is None or guarded(stage.store.value) or not (stage.pointwise or stage.combine):
        return False
    axes = {axis.var for axis in (*stage.axes, *stage.reduce)}
    return all(index in axes or isinstance(index, tirx.IntImm) for load in stage.loads for index in load.indices)


class _Block:
    """Finds and replaces the groups of a binding block."""

    def __init__(
        self, kernels: _Kernels, builder: relax.BlockBuilder, block: relax.BindingBlock, func: relax.Function
    ) -> None:
        self.kernels, self.builder, self.block = kernels, builder, block
        self.bindings = {binding.var: binding for binding in block.bindings}
        self.order = {var: position for position, var in enumerate(self.bindings)}
        graph = Graph(func)
        self.uses = graph.uses
        self.readers = {var: [r for r in found if r in self.bindings] for var, found in graph.readers.items()}

    def rewritten(self, note: Note) -> relax.BindingBlock:
        """The block, with each group as a call of one function."""
        taken: set[relax.Var] = set()
        calls: dict[relax.Var, relax.Call] = {}
        for var, binding in self.bindings.items():
            stages = self.kernels.stages(binding.value)
            if var in taken or isinstance(stages, Declined) or not any(stage.reduce for stage in stages):
                continue
            group, end = self.with_readers(var, taken)
            group = self.with_operands(group, taken)
            if len(group) > 1:
                taken.update(group)
                calls[group[-1]] = self.call(group)
                names = ", ".join(other.name for other in group if other is not var)
                note(Decision("fuse_rows", var.name, f"one kernel with {names}"))
            else:
                note(Decision("fuse_rows", var.name, end))
        if not calls:
            return self.block
        bindings = [
            relax.VarBinding(var, calls[var]) if var in calls else binding
            for var, binding in self.bindings.items()
            if var in calls or var not in taken
        ]
        return type(self.block)(bindings)

    def with_readers(self, first: relax.Var, taken: Collection[relax.Var]) -> tuple[list[relax.Var], Declined]:
        """The largest group that begins with `first`, and the reason why it is not larger."""
        group = best = [first]
        while len(group) < MOST_KERNELS:
            readers = {reader for var in group for reader in self.readers.get(var, []) if reader not in group}
            following = min(readers, key=self.order.__getitem__, default=None)
            if following is None or following in taken:
                return best, Declined("no kernel that is left reads it")
            stages = self.kernels.stages(self.bindings[following].value)
            if isinstance(stages, Declined):
                return best, Declined(f"{following.name}, which reads it, does not run by rows: {stages.reason}")
            group = [*group, following]
            if self.closed(group):
                together = self.together(group)
                if isinstance(together, Declined):
                    return best, Declined(f"with {following.name}, {together.reason}")
                best = group
        return best, Declined(f"it would be more than {MOST_KERNELS} kernels")

    def with_operands(self, group: list[relax.Var], taken: Collection[relax.Var]) -> list[relax.Var]:
        """`group`, with the elementwise kernels that compute its operands."""
        operands = [operand for var in group for operand in arguments_of(self.bindings[var].value)]
        for operand in dict.fromkeys(operands):
            if operand in group or operand in taken or operand not in self.bindings or len(group) == MOST_KERNELS:
                continue
            stages = self.kernels.stages(self.bindings[operand].value)
            larger = [operand, *group]
            if isinstance(stages, Declined) or len(stages) != 1 or not stages[0].pointwise or not self.closed(larger):
                continue
            if not isinstance(self.together(larger), Declined):
                return self.with_operands(sorted(larger, key=self.order.__getitem__), taken)
        return group

    def closed(self, group: Sequence[relax.Var]) -> bool:
        """Whether others use nothing but the last result."""
        return all(self.uses[var] == sum(reader in group for reader in self.readers.get(var, [])) for var in group[:-1])

    def together(self, group: Sequence[relax.Var]) -> tuple[Stage, ...] | Declined:
        return self.kernels.together([self.bindings[var] for var in group])

    def call(self, group: Sequence[relax.Var]) -> relax.Call:
        """A call of a new function that computes the group."""

        def emitted(binding: relax.Binding, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
            return same_call(self.builder, binding.value, values)

        bindings = [self.bindings[var] for var in group]
        names = [binding.value.args[0].name_hint.removeprefix("fused_") for binding in bindings]
        return outlined(self.builder, "_".join(["fused", *names]), bindings, emitted)
