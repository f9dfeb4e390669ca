"""Lets products read gathered matrices where they are.

    product(gather(x, places), b)    ->    gather_product(x, places, b)

A gather copies each element from a place that it looks up. If one look-up serves a whole matrix, the product can do it
once for each of its instances, and no matrix is copied. This pays for

* every right operand: its panels are read in place or packed, whether it is gathered or not;
* a left operand with at least `FEWEST_ROWS` rows. With fewer, the rows of many matrices together are one product, whose
  tiles are as high as registers allow.

Gathers that must not be fused stay as they are. The pass runs before the fusion by classes of kernels, which appends
elementwise kernels to the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import ir, relax

from deploykit.compiler.decisions import Decision, Note, unheard
from deploykit.compiler.graph.bindings import Graph, Rewrite, arguments_of, each_binding, operator_of, rewritten
from deploykit.compiler.graph.merge_kernels import PATTERN, merge_kernels
from deploykit.compiler.graph.outline import outlined, same_call
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.building.kernel_calls import OPAQUE
from deploykit.compiler.schedules.kernel.inline import gathers_matrices
from deploykit.compiler.schedules.kernel.stages import Nest, Stage, read
from deploykit.compiler.schedules.matmul.blocking import FEWEST_ROWS
from deploykit.compiler.tir.values import static


def gather_in_products(mod: ir.IRModule, note: Note = unheard) -> ir.IRModule:
    """`mod`, with gathers of matrices merged into the products that read them. Kernels must have their classes."""
    builder = relax.BlockBuilder(mod)

    def rewrite(func: relax.Function) -> Rewrite:
        return each_binding(_Function(mod, builder, Graph(func).values, note).rewritten)

    return merge_kernels(rewritten(mod, builder, rewrite))


class _Function:
    """Rewrites the products of a function. `values` are those of its variables."""

    def __init__(
        self, mod: ir.IRModule, builder: relax.BlockBuilder, values: Mapping[relax.Var, relax.Expr], note: Note
    ) -> None:
        self.mod, self.builder, self.values, self.note = mod, builder, values, note

    def rewritten(self, binding: relax.Binding) -> relax.Binding:
        if not self.is_product(binding.value):
            return binding
        left, right = arguments_of(binding.value)[:2]
        many = len(left.ty.shape) > 2 and (static(left.ty.shape[-2]) or 0) >= FEWEST_ROWS
        gathered = [each for each in dict.fromkeys([left] * many + [right]) if self.is_gather(self.values.get(each))]
        if not gathered:
            return binding
        group = [*(relax.VarBinding(var, self.values[var]) for var in gathered), binding]
        self.note(Decision("gather_in_products", binding.var.name, "reads gathered matrices in place"))
        kernel = binding.value.args[0]
        pattern = {PATTERN: self.mod[kernel].attrs[PATTERN]}
        call = outlined(self.builder, f"gather_{kernel.name_hint}", group, self.emitted, pattern)
        return relax.VarBinding(binding.var, call)

    def emitted(self, binding: relax.Binding, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
        return same_call(self.builder, binding.value, values)

    def is_product(self, value: relax.Expr) -> bool:
        stages = self.stages(value)
        return bool(stages) and isinstance(stages[0], Stage) and stages[0].annotations.get(ANCHOR) == "matmul"

    def is_gather(self, value: relax.Expr | None) -> bool:
        stages = self.stages(value)
        if len(stages) != 1 or not isinstance(stages[0], Stage) or not gathers_matrices(stages[0]):
            return False
        return bool(self.mod[value.args[0]].attrs[PATTERN] != OPAQUE) if value is not None else False

    def stages(self, value: relax.Expr | None) -> Sequence[object]:
        """The stages of the kernel that `value` calls."""
        if value is None or operator_of(value) != "relax.call_tir":
            return ()
        nest = read(self.mod[value.args[0]])
        return nest.stages if isinstance(nest, Nest) else ()
