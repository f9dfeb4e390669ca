"""Products with vectors, and convolutions with a kernel of width 1, become products of matrices.

    x @ v                  (x @ v[:, None])[..., 0]
    v @ x                  (v[None, :] @ x)[..., 0, :]
    conv1d(x, w[O, C, 1])  w[O, C] @ x[..., C, seq]; with groups, one product for each

A convolution of width 1 without strides and padding takes each position alone, so its result is right for packed
tokens, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, relax

from deploykit.compiler.constants import constant
from deploykit.compiler.constants import read as reading
from deploykit.compiler.graph.bindings import operator_of
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import const, static


def as_products(mod: ir.IRModule, name: str) -> ir.IRModule:
    """`mod`, with these operations of the function `name` in this form."""
    gvar = mod.get_global_var(name)
    func = mod[gvar]
    blocks = [type(block)(_rewritten(block.bindings)) for block in func.body.blocks]
    body = relax.SeqExpr(blocks, func.body.body)
    builder = relax.BlockBuilder(mod)
    builder.update_func(gvar, relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs))
    result: ir.IRModule = relax.transform.Normalize()(builder.get())
    return result


def _rewritten(bindings: Sequence[relax.Binding]) -> list[relax.Binding]:
    found: list[relax.Binding] = []
    for binding in bindings:
        steps = _Steps(binding.var.name, found)
        value = steps.rewritten(binding.value) if isinstance(binding, relax.VarBinding) else None
        found.append(binding if value is None else relax.VarBinding(binding.var, value))
    return found


class _Steps:
    """Binds the steps of the operation with the result `name`."""

    def __init__(self, name: str, bindings: list[relax.Binding]) -> None:
        self.name, self.bindings = name, bindings

    def rewritten(self, value: relax.Expr) -> relax.Expr | None:
        """What takes the place of `value`; None if it stays."""
        operator = operator_of(value)
        if operator == "relax.matmul":
            return self.with_vector(value)
        if operator == "relax.nn.conv1d":
            return self.convolution(value)
        return None

    def with_vector(self, value: relax.Call) -> relax.Expr | None:
        left, right = value.args
        a, b = (list(x.ty.shape.values) for x in (left, right))
        if (len(a) == 1) == (len(b) == 1):
            return None
        if len(a) == 1:
            made = self.product(self.reshaped(left, [const(1), *a]), right, value, [*b[:-2], const(1), b[-1]])
            return relax.op.reshape(made, relax.ShapeExpr([*b[:-2], b[-1]]))
        made = self.product(left, self.reshaped(right, [*b, const(1)]), value, [*a[:-1], const(1)])
        return relax.op.reshape(made, relax.ShapeExpr(a[:-1]))

    def convolution(self, value: relax.Call) -> relax.Expr | None:
        data, weight = value.args
        attrs = value.attrs
        batch, _, size = data.ty.shape.values
        results, depth, width = weight.ty.shape.values
        moves = static(width) != 1 or any(int(n) for n in attrs.padding) or any(int(n) != 1 for n in attrs.strides)
        if moves or str(attrs.data_layout) != "NCW" or static(results) is None or static(depth) is None:
            return None
        groups = int(attrs.groups)
        if groups == 1:
            return self.product(self.reshaped(weight, [results, depth]), data, value, [batch, results, size])
        each = const(int(results) // groups)
        apart = self.reshaped(data, [batch, const(groups), depth, size])
        factors = self.reshaped(weight, [const(groups), each, depth])
        made = self.product(factors, apart, value, [batch, const(groups), each, size])
        return relax.op.reshape(made, relax.ShapeExpr([batch, results, size]))

    def product(self, left: relax.Expr, right: relax.Expr, like: relax.Call, shape: Sequence[Expr]) -> relax.Var:
        dtype = str(like.attrs.out_dtype or like.args[0].ty.dtype)
        return self.bound("product", relax.op.matmul(left, right, out_dtype=dtype), shape, dtype)

    def reshaped(self, tensor: relax.Expr, shape: Sequence[Expr]) -> relax.Expr:
        if isinstance(tensor, ir.GenericConst):
            with reading(tensor) as array:
                return constant(array.reshape([int(extent) for extent in shape]).copy())
        return self.bound("matrix", relax.op.reshape(tensor, relax.ShapeExpr(list(shape))), shape, str(tensor.ty.dtype))

    def bound(self, what: str, value: relax.Expr, shape: Sequence[Expr], dtype: str) -> relax.Var:
        var = relax.Var(f"{self.name}_{what}", relax.TensorType(list(shape), dtype))
        self.bindings.append(relax.VarBinding(var, value))
        return var
