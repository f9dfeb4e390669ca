"""Products with vectors, and convolutions that keep the length, become products of matrices.

    x @ v                  (x @ v[:, None])[..., 0]
    v @ x                  (v[None, :] @ x)[..., 0, :]
    conv1d(x, w[O, C, K])  sum of w[O, C, k] @ shifted(x[..., C, seq], k) for k < K; with groups, one product for each

`shifted(x, k)` has at each position the element that tap k meets there, and zero beyond the ends. So each product takes
each position alone, and only the shifts look at others, of which `proof` finds out whether they are padding.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

from tvm import ir, relax, te, tirx

from deploykit.compiler.constants import constant
from deploykit.compiler.constants import read as reading
from deploykit.compiler.graph.bindings import operator_of
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import const, static

MOST_TAPS = 16
"""Convolutions with wider kernels are refused: one product for each tap takes too long."""


def as_products(mod: ir.IRModule, name: str) -> ir.IRModule:
    """`mod`, with these operations of the function `name` in this form."""
    gvar = mod.get_global_var(name)
    func = mod[gvar]
    builder = relax.BlockBuilder(mod)
    blocks = [type(block)(_rewritten(builder, block.bindings)) for block in func.body.blocks]
    body = relax.SeqExpr(blocks, func.body.body)
    builder.update_func(gvar, relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs))
    result: ir.IRModule = relax.transform.Normalize()(builder.get())
    return result


def _rewritten(builder: relax.BlockBuilder, bindings: Sequence[relax.Binding]) -> list[relax.Binding]:
    found: list[relax.Binding] = []
    for binding in bindings:
        steps = _Steps(builder, binding.var.name, found)
        value = steps.rewritten(binding.value) if isinstance(binding, relax.VarBinding) else None
        found.append(binding if value is None else relax.VarBinding(binding.var, value))
    return found


class _Steps:
    """Binds the steps of the operation with the result `name`. `builder` gets the kernels that they need."""

    def __init__(self, builder: relax.BlockBuilder, name: str, bindings: list[relax.Binding]) -> None:
        self.builder, self.name, self.bindings = builder, name, bindings

    def rewritten(self, value: relax.Expr) -> relax.Expr | None:
        """What takes the place of `value`; None if it stays."""
        name = operator_of(value)
        if name == "relax.matmul":
            return self.with_vector(value)
        if name == "relax.nn.conv1d":
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
        results, depth, width = map(static, weight.ty.shape.values)
        before, after = (int(n) for n in attrs.padding)
        step, apart = int(attrs.dilation[0]), int(attrs.strides[0])
        if results is None or depth is None or width is None or str(attrs.data_layout) != "NCW":
            return None
        if apart != 1 or before + after != step * (width - 1) or width > MOST_TAPS:
            return None
        taps = [self.tap(weight, tap) for tap in range(width)]
        parts = [
            self.grouped(matrix, self.shifted(data, tap * step - before), value)
            for tap, matrix in enumerate(taps)
            if matrix is not None
        ]
        if len(parts) < width:
            return None
        return parts[0] if width == 1 else self.sum([self.as_var(part, value) for part in parts])

    def sum(self, parts: Sequence[relax.Expr]) -> relax.Expr:
        def build(*terms: te.Tensor) -> te.Tensor:
            return te.compute(terms[0].shape, lambda *i: reduce(operator.add, (t(*i) for t in terms)), name="sum")

        return call_te(self.builder, build, *parts, name="sum")

    def tap(self, weight: relax.Expr, tap: int) -> relax.Expr | None:
        """The matrix (O, C) of a tap; None if the weights are not constant and there are several."""
        results, depth, width = weight.ty.shape.values
        if isinstance(weight, ir.GenericConst):
            with reading(weight) as array:
                return constant(array[:, :, tap].copy())
        return self.reshaped(weight, [results, depth]) if static(width) == 1 else None

    def grouped(self, matrix: relax.Expr, data: relax.Expr, like: relax.Call) -> relax.Expr:
        """The product of a matrix (O, C), or of one for each group, with data (batch, C * groups, size)."""
        batch, _, size = data.ty.shape.values
        results, depth = matrix.ty.shape.values
        groups = int(like.attrs.groups)
        if groups == 1:
            return self.product(matrix, data, like, [batch, results, size])
        each = const(int(results) // groups)
        apart = self.reshaped(data, [batch, const(groups), depth, size])
        factors = self.reshaped(matrix, [const(groups), each, depth])
        made = self.product(factors, apart, like, [batch, const(groups), each, size])
        return relax.op.reshape(made, relax.ShapeExpr([batch, results, size]))

    def shifted(self, data: relax.Expr, offset: int) -> relax.Expr:
        """`data` (batch, channels, size), with each element moved by `offset` positions to the front."""
        if offset == 0:
            return data
        dtype = str(data.ty.dtype)

        def build(x: te.Tensor) -> te.Tensor:
            def element(b: ir.Expr, c: ir.Expr, i: ir.Expr) -> ir.Expr:
                inside = i + offset < x.shape[2] if offset > 0 else i + offset >= 0
                return tirx.if_then_else(inside, x(b, c, i + offset), tirx.const(0, dtype))

            return te.compute(x.shape, element, name="shifted")

        call = call_te(self.builder, build, data, name="shifted")
        return self.bound("shifted", call, data.ty.shape.values, dtype)

    def as_var(self, value: relax.Expr, like: relax.Call) -> relax.Expr:
        batch, _, size = like.args[0].ty.shape.values
        shape = [batch, like.args[1].ty.shape.values[0], size]
        dtype = str(like.attrs.out_dtype or like.args[0].ty.dtype)
        return value if isinstance(value, relax.Var) else self.bound("part", value, shape, dtype)

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
