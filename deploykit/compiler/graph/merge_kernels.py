"""Merges a function of kernels, as fusion leaves it, into one kernel.

A function with the attribute `Primitive` is a block of `call_tir`. It becomes a PrimFunc with the bodies of those
kernels in order, and every call of it becomes a `call_tir`:

    fused(x, [n]) = b(a(x))    ->    fused(x, n, y): alloc t; a(x, t); b(t, y)

The dims of a kernel are replaced by those of its caller. Two names of one dim may meet here; they are equal when the
kernel runs, and the first one found is used. A dim of the function that is not an extent of its tensors becomes a
parameter of the kernel, between the inputs and the outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.decisions import Decision, Note, unheard
from deploykit.compiler.graph.bindings import each_binding, operator_of, rewritten
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence

PRIMITIVE = "Primitive"
PATTERN = "op_pattern"
"""The class of a kernel for fusion. A merged kernel has that of its function."""


@dataclass(frozen=True)
class Merged:
    """A merged kernel. `scalars` are the variables of the original function that its integer parameters stand for."""

    func: tirx.PrimFunc
    scalars: tuple[ir.Var, ...]


def merge_kernels(mod: ir.IRModule, note: Note = unheard) -> ir.IRModule:
    """`mod`, with one kernel for each function of kernels."""
    functions = {gvar: func for gvar, func in mod.functions.items() if _is_primitive(func)}
    if not functions:
        return mod
    merged = {gvar: merged_kernel(mod, func) for gvar, func in functions.items()}
    for gvar, func in functions.items():
        note(Decision("fusion", gvar.name_hint, f"one kernel of {', '.join(_called_in(func))}"))
    kept = ir.IRModule({gvar: func for gvar, func in mod.functions.items() if gvar not in functions}, attrs=mod.attrs)
    builder = relax.BlockBuilder(kept)
    names = {gvar: builder.add_func(kernel.func, gvar.name_hint) for gvar, kernel in merged.items()}
    rewrite = each_binding(lambda binding: _called(binding, functions, merged, names))
    return rewritten(kept, builder, lambda _: rewrite)


def merged_kernel(mod: ir.IRModule, func: relax.Function) -> Merged:
    """The kernel that computes `func`, a function of kernels in `mod`."""
    return _Merge(mod, func).result()


def _called_in(func: relax.Function) -> list[str]:
    """The names of the kernels that a function of kernels calls."""
    values = [binding.value for block in func.body.blocks for binding in block.bindings]
    return [value.args[0].name_hint for value in values if operator_of(value) == "relax.call_tir"]


def _is_primitive(func: object) -> bool:
    return isinstance(func, relax.Function) and func.attrs is not None and PRIMITIVE in func.attrs


def _called(
    binding: relax.Binding,
    functions: Mapping[ir.GlobalVar, relax.Function],
    merged: Mapping[ir.GlobalVar, Merged],
    names: Mapping[ir.GlobalVar, ir.GlobalVar],
) -> relax.Binding:
    call = binding.value
    callee = getattr(call, "op", None)
    if callee not in merged:
        return binding
    tensors: list[relax.Expr] = []
    dims: dict[ir.Var, Expr] = {}
    for param, argument in zip(functions[callee].params, call.args, strict=True):
        if isinstance(param.ty, relax.TensorType | relax.TupleType):
            tensors += _parts(argument)
            for formal, actual in zip(_types(param.ty), _types(argument.ty), strict=True):
                _match(dims, formal.shape, actual.shape)
    for param, argument in zip(functions[callee].params, call.args, strict=True):
        if isinstance(param.ty, relax.ShapeType):
            _match(dims, param.ty.values, argument.values)
        elif isinstance(param.ty, ir.PrimType):
            dims.setdefault(param, argument)
    types = binding.var.ty
    out = list(types.fields) if isinstance(types, relax.TupleType) else types
    scalars = [dims[var] for var in merged[callee].scalars]
    return relax.VarBinding(binding.var, relax.call_tir(names[callee], relax.Tuple([*tensors, *scalars]), out))


class _Merge:
    """Merges one function. `buffers` maps its variables to buffers; `bodies` are the statements of its kernels."""

    def __init__(self, mod: ir.IRModule, func: relax.Function) -> None:
        self.mod, self.func = mod, func
        self.buffers: dict[relax.Expr, tuple[Buffer, ...]] = {}
        self.bodies: list[tirx.Stmt] = []
        self.allocated: list[Buffer] = []

    def result(self) -> Merged:
        params: list[Buffer] = []
        for param in self.func.params:
            if isinstance(param.ty, relax.TensorType | relax.TupleType):
                self.buffers[param] = tuple(_buffer(param.name, type_) for type_ in _types(param.ty))
                params += self.buffers[param]
        for block in self.func.body.blocks:
            for binding in block.bindings:
                self.binding(binding)
        outputs = self.buffers[self.func.body.body]
        scalars = self.scalars([*params, *outputs])
        inner = [buffer for buffer in self.allocated if not any(buffer.same_as(out) for out in outputs)]
        root = s_tir.SBlock([], [], [], "root", sequence(self.bodies), alloc_buffers=inner)
        body = s_tir.SBlockRealize([], True, root)
        known = {PATTERN: self.func.attrs[PATTERN]} if PATTERN in self.func.attrs else {}
        attrs = ir.make_node("ir.DictAttrs", **{"s_tir": True, "tirx.noalias": True, **known})
        kernel = tirx.PrimFunc([*params, *scalars, *outputs], body, None, attrs)
        return Merged(s_tir.renew_defs(kernel), scalars)

    def binding(self, binding: relax.Binding) -> None:
        value = binding.value
        if operator_of(value) == "relax.call_tir":
            self.buffers[binding.var] = self.kernel(value)
        elif isinstance(value, relax.TupleGetItem):
            self.buffers[binding.var] = (self.buffers[value.tuple_value][value.index],)
        else:
            self.buffers[binding.var] = self.of(value)

    def of(self, value: relax.Expr) -> tuple[Buffer, ...]:
        """The buffers that `value` stands for."""
        if isinstance(value, relax.Tuple):
            return tuple(buffer for part in value.fields for buffer in self.of(part))
        return self.buffers[value]

    def kernel(self, call: relax.Call) -> tuple[Buffer, ...]:
        """Add the statements of the kernel that `call` calls. Returns the buffers that it writes."""
        kernel = s_tir.renew_defs(self.mod[call.args[0]])
        arguments, formals = list(call.args[1].fields), list(kernel.params)
        results = zip(formals[len(arguments) :], _types(call.ty_args[0]), strict=True)
        outputs = [_buffer(f"{formal.name}_intermediate", type_) for formal, type_ in results]
        actuals = [self.of(a)[0] if isinstance(a.ty, relax.TensorType) else a for a in arguments] + outputs
        values = dict(zip(formals, actuals, strict=True))
        for formal, actual in zip(formals, actuals, strict=True):
            if tirx.is_buffer_var(formal):
                _match(values, formal.shape, actual.shape)
        body = tvm_ffi.structural_map(kernel.body, (ir.Var, lambda var: values.get(var, var)))
        self.allocated += [*body.block.alloc_buffers, *outputs]
        self.bodies += list(body.block.body.seq) if isinstance(body.block.body, tirx.SeqStmt) else [body.block.body]
        return tuple(outputs)

    def scalars(self, buffers: Sequence[Buffer]) -> tuple[ir.Var, ...]:
        """The dims of the function that are used, but are not an extent of `buffers`."""
        given = {extent for buffer in buffers for extent in buffer.shape if isinstance(extent, ir.Var)}
        used = {var for body in self.bodies for var in collect(body, ir.Var)}
        used |= {var for buffer in (*buffers, *self.allocated) for n in buffer.shape for var in collect(n, ir.Var)}
        return tuple(var for var in _dims(self.func) if var in used and var not in given)


def _dims(func: relax.Function) -> list[ir.Var]:
    """The integer variables that a function gets through its parameters."""
    found: list[ir.Var] = []
    for param in func.params:
        if isinstance(param.ty, ir.PrimType):
            found.append(param)
        elif isinstance(param.ty, relax.ShapeType):
            found += [var for size in param.ty.values for var in collect(size, ir.Var)]
        else:
            found += [var for type_ in _types(param.ty) for size in type_.shape.values for var in collect(size, ir.Var)]
    return list(dict.fromkeys(found))


def _types(type_: relax.TensorType | relax.TupleType) -> list[relax.TensorType]:
    return list(type_.fields) if isinstance(type_, relax.TupleType) else [type_]


def _parts(value: relax.Expr) -> list[relax.Expr]:
    """`value`, or its parts where it is a tuple."""
    if not isinstance(value.ty, relax.TupleType):
        return [value]
    return [relax.TupleGetItem(value, position) for position in range(len(value.ty.fields))]


def _buffer(name: str, type_: relax.TensorType) -> Buffer:
    return tirx.decl_buffer(list(type_.shape.values), str(type_.dtype), name, layout=None)


def _match(values: dict[ir.Var, Expr], formal: Iterable[Expr], actual: Iterable[Expr]) -> None:
    """Note the values of variables that are whole extents of `formal` in `values`."""
    for extent, value in zip(formal, actual, strict=True):
        if isinstance(extent, ir.Var):
            values.setdefault(extent, value)
