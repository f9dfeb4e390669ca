"""Removes masks: tensors that hold one number at every valid position.

Where such a tensor is read, the number takes its place, and what is computed with it is simplified: `x + 0`, `x * 1`,
`where(true, x, y)` become `x`. A kernel of which only a copy of its operand is left is removed.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.graph.bindings import with_blocks
from deploykit.compiler.ragged.conversion.blocks import new_kernel
from deploykit.compiler.ragged.conversion.contents import Content
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call
from deploykit.compiler.tir.rewriting import Buffer, Expr, Node, call_name, replace_loads, substitute
from deploykit.compiler.tir.values import at_place, dtype_of

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
            value = _simplified(builder, mod, binding.value, contents, same)
            if isinstance(value, relax.Var):
                same[binding.var] = value
            else:
                bindings.append(relax.VarBinding(binding.var, value))
        blocks.append(type(block)(bindings))
    builder.update_func(gvar, with_blocks(func, blocks, substitute(func.body.body, same)))
    return relax.transform.Normalize()(builder.get())


def _simplified(
    builder: relax.BlockBuilder,
    mod: ir.IRModule,
    value: relax.Expr,
    contents: Contents,
    same: Mapping[ir.Var, relax.Expr],
) -> relax.Expr:
    """`value` without masks among its operands: another call, or the operand that it copies. `same` are the operands
    that took the place of variables. A recurrent layer keeps all its operands, because they have roles."""
    call = kernel_call(mod, value)
    if call is None or call.layer is not None:
        return substitute(value, same)
    found = {buffer: _number(contents.get(operand)) for buffer, operand in call.operands.items()}
    numbers = {buffer: number for buffer, number in found.items() if number is not None}
    if not numbers:
        return substitute(value, same)
    operands = {buffer: operand for buffer, operand in call.operands.items() if buffer not in numbers}
    func, scalars = new_kernel(list(operands), call.results, folded(_numbered(call.body, numbers)))
    gvar = builder.add_func(func, call.name)
    given = relax.Tuple([*(substitute(operand, same) for operand in operands.values()), *scalars])
    made = relax.Call(value.op, [gvar, given, *value.args[2:]], ty_args=value.ty_args)
    copied = _copied(builder, made)
    return made if copied is None else copied


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


def _copied(builder: relax.BlockBuilder, call: relax.Call) -> relax.Var | None:
    """The variable that a kernel copies unchanged, if that is all it does."""
    found: KernelCall | None = kernel_call(builder.get(), call)
    stage = None if found is None else found.pointwise
    if found is None or len(found.results) != 1 or stage is None or stage.store is None:
        return None
    load = stage.store.value
    if not isinstance(load, ir.TensorLoad) or not at_place(load.indices, [axis.var for axis in stage.axes]):
        return None
    operand = found.operands.get(load.source)
    if not isinstance(operand, relax.Var):
        return None
    same = all(
        a.same_as(b) or bool(tvm_ffi.structural_equal(a, b))
        for a, b in zip(operand.ty.shape.values, found.results[0].shape, strict=True)
    )
    return operand if same else None
