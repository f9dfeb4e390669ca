"""Removes masks: tensors that hold one number at every valid position.

Where such a tensor is read, the number takes its place, and what is computed with it is simplified: `x + 0`, `x * 1`,
`where(true, x, y)` become `x`. A kernel of which only a copy of its operand is left is removed.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.graph.bindings import operator_of
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.ragged.conversion.contents import Content
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, Node, call_name, collect, replace_loads, substitute
from deploykit.compiler.tir.values import dtype_of

Contents = Mapping[relax.Expr, Content]


def without_masks(mod: ir.IRModule, name: str, contents: Contents) -> ir.IRModule:
    """`mod`, with the masks removed from the function `name`, whose tensors hold `contents`. Their computation is left,
    unused where nothing else needs it."""
    gvar = mod.get_global_var(name)
    func = mod[gvar]
    builder = relax.BlockBuilder(mod)
    same: dict[ir.Var, relax.Expr] = {}
    blocks = []
    for block in func.body.blocks:
        bindings = []
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                bindings.append(binding)
                continue
            value = substitute(binding.value, same)
            rewritten = _simplified(builder, mod, binding.value, value, contents)
            if isinstance(rewritten, relax.Var):
                same[binding.var] = rewritten
            else:
                bindings.append(relax.VarBinding(binding.var, rewritten))
        blocks.append(type(block)(bindings))
    body = relax.SeqExpr(blocks, substitute(func.body.body, same))
    builder.update_func(gvar, relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs))
    return relax.transform.Normalize()(builder.get())


def _simplified(
    builder: relax.BlockBuilder, mod: ir.IRModule, original: relax.Expr, value: relax.Expr, contents: Contents
) -> relax.Expr:
    """`value` without masks among its operands: another call, or the operand that it copies. `original` has the
    variables that `contents` has."""
    if operator_of(value) != "relax.call_tir" or _has_roles(mod, original):
        return value
    fields = list(original.args[1].fields)
    masks = [_number(contents.get(field)) if isinstance(field, relax.Var) else None for field in fields]
    if all(number is None for number in masks):
        return value
    func = s_tir.renew_defs(mod[value.args[0]])
    numbers = {param: number for param, number in zip(func.params, masks, strict=False) if number is not None}
    kept = [i for i, number in enumerate(masks) if number is None]
    body = folded(_numbered(func.body, numbers))
    lost = _lost_dims(func, kept, len(fields))
    scalars = [_dim_of(func, value, var) for var in lost]
    params = [*(func.params[i] for i in kept), *lost, *func.params[len(fields) :]]
    given = [*(value.args[1].fields[i] for i in kept), *scalars]
    kernel = s_tir.renew_defs(tirx.PrimFunc(params, body, None, func.attrs))
    gvar = builder.add_func(kernel, value.args[0].name_hint)
    call = relax.Call(value.op, [gvar, relax.Tuple(given), *value.args[2:]], ty_args=value.ty_args)
    copied = _copied(builder, call)
    return call if copied is None else copied


def _has_roles(mod: ir.IRModule, value: relax.Call) -> bool:
    """Whether a kernel is annotated with what its operands are."""
    call = kernel_call(mod, value)
    return call is not None and call.layer is not None


def _number(content: Content | None) -> float | None:
    if content is None or not content.is_ragged or content.valid.kind != "constant":
        return None
    return content.valid.value


def _numbered(body: tirx.Stmt, numbers: Mapping[Buffer, float]) -> tirx.Stmt:
    def load(node: ir.TensorLoad) -> Expr:
        number = numbers.get(node.source)
        if number is None:
            return node
        dtype = dtype_of(node)
        return tirx.const(bool(number) if dtype == "bool" else int(number) if "int" in dtype else number, dtype)

    return _without_reads(replace_loads(body, load), numbers)


def _without_reads(body: tirx.Stmt, gone: Mapping[Buffer, float]) -> tirx.Stmt:
    """The body, whose blocks do not say that they read the buffers `gone`."""

    def block(node: s_tir.SBlock) -> s_tir.SBlock:
        reads = [region for region in node.reads if region.source not in gone]
        return s_tir.SBlock(
            node.iter_vars,
            reads,
            node.writes,
            node.name_hint,
            node.body,
            node.init,
            node.alloc_buffers,
            node.match_buffers,
            node.annotations,
        )

    return tvm_ffi.structural_map(body, (s_tir.SBlock, block))


def folded(body: Node) -> Node:
    """`body`, with operations on constants carried out."""
    arithmetic = {
        tirx.Add: lambda n: n.a + n.b,
        tirx.Sub: lambda n: n.a - n.b,
        tirx.Mul: lambda n: n.a * n.b,
        tirx.Div: _divided,
        tirx.And: lambda n: tirx.all(n.a, n.b),
        tirx.Or: lambda n: tirx.any(n.a, n.b),
        tirx.LT: lambda n: n.a < n.b,
        tirx.LE: lambda n: n.a <= n.b,
        tirx.GT: lambda n: n.a > n.b,
        tirx.GE: lambda n: n.a >= n.b,
        tirx.EQ: lambda n: tirx.EQ(n.a, n.b),
        tirx.NE: lambda n: tirx.NE(n.a, n.b),
        tirx.Not: lambda n: n,
        tirx.Cast: lambda n: n.value.astype(dtype_of(n)),
        tirx.Select: _selected,
        ir.Call: _called,
    }

    def fold(node: Expr) -> Expr:
        return _known_comparison(arithmetic[type(node)](node))

    result: Node = tvm_ffi.structural_map(body, (tuple(arithmetic), fold))
    return result


def _known_comparison(node: Expr) -> Expr:
    """The truth of a comparison or negation of constants."""
    if isinstance(node, tirx.Not) and isinstance(node.a, tirx.IntImm):
        return tirx.const(not int(node.a), "bool")
    if isinstance(node, tirx.EQ | tirx.NE | tirx.LT | tirx.LE | tirx.GT | tirx.GE):
        numbers = [side.value for side in (node.a, node.b) if isinstance(side, tirx.IntImm | tirx.FloatImm)]
        if len(numbers) == 2:
            a, b = numbers
            truth = {tirx.EQ: a == b, tirx.NE: a != b, tirx.LT: a < b, tirx.LE: a <= b, tirx.GT: a > b}
            return tirx.const(truth.get(type(node), a >= b), "bool")
    return node


def _divided(node: tirx.Div) -> Expr:
    """A quotient of floats. TVM's operator takes no integers, and no constant 0 as the divisor."""
    by_zero = isinstance(node.b, tirx.FloatImm) and node.b.value == 0
    return node if "int" in dtype_of(node) or by_zero else node.a / node.b


def _selected(node: tirx.Select) -> Expr:
    if isinstance(node.condition, tirx.IntImm):
        return node.true_value if int(node.condition) else node.false_value
    return node


def _called(node: ir.Call) -> Expr:
    if call_name(node) == "if_then_else" and isinstance(node.args[0], tirx.IntImm):
        return node.args[1] if int(node.args[0]) else node.args[2]
    return node


def _lost_dims(func: tirx.PrimFunc, kept: list[int], inputs: int) -> list[ir.Var]:
    """The dims that only the operands that are removed had as an extent."""
    others = [*(func.params[i] for i in kept), *func.params[inputs:]]
    known = {extent for param in others if tirx.is_buffer_var(param) for extent in param.shape}
    known |= {param for param in others if not tirx.is_buffer_var(param)}
    every = [extent for param in func.params if tirx.is_buffer_var(param) for extent in param.shape]
    used = {
        *collect(func.body, ir.Var),
        *(v for p in others if tirx.is_buffer_var(p) for n in p.shape for v in collect(n, ir.Var)),
    }
    return [v for v in dict.fromkeys(every) if isinstance(v, ir.Var) and v not in known and v in used]


def _dim_of(func: tirx.PrimFunc, value: relax.Call, var: ir.Var) -> Expr:
    """The value of one of the kernel's dims where it is called."""
    for param, field in zip(func.params, value.args[1].fields, strict=False):
        if tirx.is_buffer_var(param):
            for extent, size in zip(param.shape, field.ty.shape.values, strict=True):
                if extent.same_as(var):
                    return size
    raise Unsupported(f"'{var.name}' is no dim of an operand")


def _copied(builder: relax.BlockBuilder, call: relax.Call) -> relax.Var | None:
    """The variable that a kernel copies unchanged, if that is all it does."""
    found: KernelCall | None = kernel_call(builder.get(), call)
    if found is None or len(found.results) != 1 or len(found.stages) != 1:
        return None
    stage = found.stages[0]
    if not isinstance(stage, Stage) or not stage.pointwise or stage.store is None:
        return None
    load = stage.store.value
    if not isinstance(load, ir.TensorLoad) or len(load.indices) != len(stage.axes):
        return None
    exact = all(index.same_as(axis.var) for index, axis in zip(load.indices, stage.axes, strict=True))
    operand = found.operands.get(load.source)
    if not exact or not isinstance(operand, relax.Var):
        return None
    same = all(
        a.same_as(b) or bool(tvm_ffi.structural_equal(a, b))
        for a, b in zip(operand.ty.shape.values, found.results[0].shape, strict=True)
    )
    return operand if same else None
