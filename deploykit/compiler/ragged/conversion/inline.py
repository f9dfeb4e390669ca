"""Inlines masks and biases: tensors with the ragged dim twice that no product has made.

Such a tensor, `[batch, heads, seq, seq]`, would be as large as the scores of attention. If one pointwise stage computes
it from smaller tensors, its value takes its place in the kernels that read it, so that it becomes part of attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm import ir, relax

from deploykit.compiler.decisions import Declined
from deploykit.compiler.graph.bindings import rewritten
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.ragged.conversion.blocks import block, new_kernel, root
from deploykit.compiler.ragged.conversion.contents import RaggedDim, axes_of
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call
from deploykit.compiler.ragged.conversion.places import decided, ranges
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, replace_loads, substitute


@dataclass(frozen=True)
class Producer:
    """A pointwise kernel: the element at `axes` is `value`, which reads `operands`."""

    axes: tuple[ir.Var, ...]
    value: Expr
    operands: Mapping[Buffer, relax.Expr]

    def at(self, indices: list[Expr]) -> Expr:
        return substitute(self.value, dict(zip(self.axes, indices, strict=True)))


def inline(mod: ir.IRModule, name: str, dim: RaggedDim) -> ir.IRModule:
    """`mod`, with such tensors of the function `name` inlined where kernels read them."""
    builder = relax.BlockBuilder(mod)
    producers: dict[ir.Var, Producer] = {}

    def binding(old: relax.Binding) -> relax.Binding:
        value = old.value
        call = kernel_call(mod, value) if isinstance(old, relax.VarBinding) else None
        if call is None or not call.staged:
            return old
        if any(operand in producers for operand in call.operands.values() if isinstance(operand, relax.Var)):
            call, value = _rewritten(builder, call, value, producers, dim)
        found = _producer(call, dim)
        if found is not None:
            producers[old.var] = found
        return relax.VarBinding(old.var, value)

    def rewrite(old: relax.BindingBlock) -> relax.BindingBlock:
        return type(old)([binding(each) for each in old.bindings])

    own = mod[mod.get_global_var(name)]
    result = rewritten(mod, builder, lambda func: rewrite if func.same_as(own) else lambda same: same)
    return relax.transform.DeadCodeElimination([name])(result)


def _producer(call: KernelCall, dim: RaggedDim) -> Producer | None:
    """The kernel as a producer, if its result is to be inlined."""
    stage = call.pointwise
    if len(call.results) != 1 or stage is None or stage.store is None:
        return None
    if not _is_square(call.results[0], dim) or any(_is_square(buffer, dim) for buffer in call.operands):
        return None
    return Producer(tuple(axis.var for axis in stage.axes), stage.store.value, call.operands)


def _is_square(buffer: Buffer, dim: RaggedDim) -> bool:
    """Whether a tensor has the ragged dim twice."""
    try:
        return len(axes_of(list(buffer.shape), dim)[1]) > 1
    except Unsupported:
        return False


def _rewritten(
    builder: relax.BlockBuilder,
    call: KernelCall,
    value: relax.Call,
    producers: Mapping[ir.Var, Producer],
    dim: RaggedDim,
) -> tuple[KernelCall, relax.Call]:
    """A kernel that computes the elements of `producers` itself."""
    inlined = {b: producers[x] for b, x in call.operands.items() if isinstance(x, relax.Var) and x in producers}

    def load(node: ir.TensorLoad) -> Expr:
        producer = inlined.get(node.source)
        return node if producer is None else producer.at(list(node.indices))

    nest = call.nest
    assert not isinstance(nest, Declined)
    stages = tuple(
        replace(stage, body=decided(replace_loads(stage.body, load), ranges(stage.axes, dim)))
        if isinstance(stage, Stage)
        else stage
        for stage in nest.stages
    )
    operands = {buffer: operand for buffer, operand in call.operands.items() if buffer not in inlined}
    for producer in inlined.values():
        operands |= producer.operands
    body = root(
        [block(s, s.axes, s.reduce, s.body, s.init) if isinstance(s, Stage) else s.body for s in stages],
        call.temporaries,
    )
    used = set(collect(body, ir.Var))
    operands = {buffer: operand for buffer, operand in operands.items() if buffer in used}
    func, scalars = new_kernel(list(operands), list(call.results), body)
    gvar = builder.add_func(func, call.name)
    given = relax.Tuple([*operands.values(), *scalars])
    made = relax.Call(value.op, [gvar, given, *value.args[2:]], ty_args=value.ty_args)
    return replace(call, operands=operands, nest=replace(nest, stages=stages)), made
