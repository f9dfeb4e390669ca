"""Lets kernels read integers where they would read the floats that the integers stand for.

    reader(dequantize(x), b)    ->    dequantize_reader(x, b)

A dequantised tensor takes four times the memory of its integers, and computing an element again takes less time than
reading it from memory. So a kernel that makes floats of smaller integers, element by element, is merged into those that
read its result: a pooling, a softmax, a sum of two branches. Elements are added in the same order as before. Where a
CPU fuses multiplication and addition, a sum of such elements is rounded once per element instead of twice.

It stays where it is if one of its readers needs the floats in memory: a product or a convolution, a kernel written as
loops, a call, or the model's output. The pass runs before the fusion by classes of kernels, which would otherwise
append the dequantisation to the kernel in front of it.
"""

from __future__ import annotations

from tvm import ir, relax

from deploykit.compiler.decisions import Decision, Declined, Note, unheard
from deploykit.compiler.graph.bindings import Graph, Rewrite, arguments_of, each_binding, operator_of, rewritten
from deploykit.compiler.graph.merge_kernels import PATTERN, merge_kernels
from deploykit.compiler.graph.outline import one_kernel, outlined, same_call
from deploykit.compiler.schedules.driver import prepared
from deploykit.compiler.schedules.kernel.stages import Nest, Stage, read
from deploykit.compiler.tir.values import at_place, bits_of, dtype_of


def narrow_operands(mod: ir.IRModule, note: Note = unheard) -> ir.IRModule:
    """`mod`, with dequantisations merged into the kernels that read them. Kernels must have their classes."""
    builder = relax.BlockBuilder(mod)

    def rewrite(func: relax.Function) -> Rewrite:
        return each_binding(_Function(mod, builder, Graph(func), note).rewritten)

    return merge_kernels(rewritten(mod, builder, rewrite))


class _Function:
    """Rewrites the kernels of a function."""

    def __init__(self, mod: ir.IRModule, builder: relax.BlockBuilder, graph: Graph, note: Note) -> None:
        self.mod, self.builder, self.graph = mod, builder, graph
        self.merged: set[relax.Var] = set()
        for var, value in graph.values.items():
            if self.widens(value):
                kept = self.kept(var)
                note(Decision("narrow_operands", var.name, kept or "computed by the kernels that read it"))
                if kept is None:
                    self.merged.add(var)

    def rewritten(self, binding: relax.Binding) -> relax.Binding:
        operands = [operand for operand in dict.fromkeys(arguments_of(binding.value)) if operand in self.merged]
        if not operands:
            return binding
        group = [*(relax.VarBinding(var, self.graph.values[var]) for var in operands), binding]
        kernel = binding.value.args[0]
        pattern = {PATTERN: self.mod[kernel].attrs[PATTERN]}
        return relax.VarBinding(
            binding.var, outlined(self.builder, f"dequantize_{kernel.name_hint}", group, self.emitted, pattern)
        )

    def emitted(self, binding: relax.Binding, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
        return same_call(self.builder, binding.value, values)

    def widens(self, value: relax.Expr) -> bool:
        """Whether a kernel makes floats of smaller integers, element by element."""
        if operator_of(value) != "relax.call_tir":
            return False
        nest = read(self.mod[value.args[0]])
        if not isinstance(nest, Nest) or len(nest.stages) != 1:
            return False
        (stage,) = nest.stages
        if not isinstance(stage, Stage) or not stage.pointwise:
            return False
        axes, result = [axis.var for axis in stage.axes], dtype_of(stage.outputs[0])
        dtypes = [dtype_of(load.source) for load in stage.loads if at_place(load.indices, axes)]
        integers = bool(dtypes) and all(dtype.startswith(("int", "uint")) for dtype in dtypes)
        return integers and result.startswith("float") and sum(map(bits_of, dtypes)) < bits_of(result)

    def kept(self, var: relax.Var) -> Declined | None:
        """Why the floats are needed in memory, or None."""
        readers = self.graph.readers.get(var, [])
        if self.graph.uses[var] != len(readers):
            return Declined("it is a result, or a call reads it")
        for reader in dict.fromkeys(readers):
            if not self.absorbs(relax.VarBinding(reader, self.graph.values[reader]), var):
                return Declined(f"{reader.name} reads it, and does not compute elements itself")
        return None if readers else Declined("nothing reads it")

    def absorbs(self, reader: relax.Binding, var: relax.Var) -> bool:
        """Whether the kernel of `reader` computes the elements of `var` where it reads them."""
        call = reader.value
        if operator_of(call) != "relax.call_tir" or not isinstance(call.ty_args[0], relax.TensorType):
            return False
        alone = prepared(self.mod[call.args[0]])
        together = prepared(one_kernel(self.mod, [relax.VarBinding(var, self.graph.values[var]), reader]))
        if isinstance(alone, Declined) or isinstance(together, Declined):
            return False
        return len(together.temporaries) == len(alone.temporaries)
