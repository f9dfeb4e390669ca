"""Outlines bindings: some bindings of a block become a call of a new function, which `merge_kernels` makes one kernel.

The function's parameters are the tensors that the bindings read from outside, then the dims that are not in the shapes
of these tensors. Its one result is that of the last binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvm import ir, relax, tirx

from deploykit.compiler.graph.bindings import arguments_of, operator_of
from deploykit.compiler.graph.merge_kernels import merged_kernel
from deploykit.compiler.operators.building.kernel_calls import is_tensor

Values = dict[relax.Expr, relax.Expr]
Emit = Callable[[relax.Binding, Values], relax.Expr]


def outlined(
    builder: relax.BlockBuilder,
    name: str,
    bindings: Sequence[relax.Binding],
    emitted: Emit,
    attributes: Mapping[str, object] | None = None,
) -> relax.Call:
    """A call of a new function made of `bindings`, with these `attributes`. `emitted(binding, values)` emits one
    binding in the function; `values` maps expressions of the outside to those in the function."""
    inside = {binding.var for binding in bindings}
    outer: dict[relax.Expr, relax.Var] = {}
    free: dict[ir.Var, None] = {}
    for binding in bindings:
        for argument in (*arguments_of(binding.value), *_integers(binding.value)):
            if not is_tensor(argument):
                free.update(dict.fromkeys(tirx.analysis.undefined_vars(argument)))
            elif argument not in inside and argument not in outer:
                outer[argument] = relax.Var(f"x{len(outer)}", argument.ty)
    bound = {extent for param in outer.values() for extent in param.ty.shape}
    loose = [var for var in free if var not in bound]
    params = [*outer.values(), *([relax.Var("dims", relax.ShapeType(loose))] if loose else [])]
    with builder.function(name, params, {"Primitive": True, **(attributes or {})}, private=True):
        with builder.dataflow():
            values: Values = dict(outer)
            for binding in bindings:
                values[binding.var] = emitted(binding, values)
            output = builder.emit_output(values[bindings[-1].var])
        gvar = builder.emit_func_output(output)
    return relax.Call(gvar, [*outer, *([relax.ShapeExpr(loose)] if loose else [])])


def same_call(builder: relax.BlockBuilder, call: relax.Call, values: Values) -> relax.Expr:
    """Emit the kernel that `call` calls, with its operands replaced by `values`."""
    operands = [values.get(argument, argument) for argument in arguments_of(call)]
    given = [call.args[0], relax.Tuple(operands), *call.args[2:]]
    return builder.emit(relax.Call(call.op, given, ty_args=call.ty_args))


def one_kernel(mod: ir.IRModule, group: Sequence[relax.Binding]) -> tirx.PrimFunc:
    """What the kernels in `mod` that a group of bindings calls are as one kernel. `mod` stays as it is."""
    names = dict.fromkeys(binding.value.args[0] for binding in group)
    builder = relax.BlockBuilder(ir.IRModule({name: mod[name] for name in names}))

    def emitted(binding: relax.Binding, values: Values) -> relax.Expr:
        return same_call(builder, binding.value, values)

    call = outlined(builder, "group", group, emitted)
    found = builder.get()
    return merged_kernel(found, found[call.op]).func


def _integers(value: relax.Expr) -> Sequence[relax.Expr]:
    """The extents of the results of a kernel."""
    if operator_of(value) == "relax.call_tir":
        types = value.ty_args[0]
        types = list(types.fields) if isinstance(types, relax.TupleType) else [types]
        return [extent for tensor in types for extent in tensor.shape.values]
    return []
