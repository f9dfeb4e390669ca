"""Stores the large weights of products and tables as int8, a quarter of the bytes.

    x @ w           ->    (q(x) @ q(w)) * (step(x) * step(w))        exact sums of products of int8
    table[index]    ->    q(table)[index] * step(table)[index]

`q(v) = round(v / step)`, and `step` is the greatest magnitude divided by 127: of a column of `w`, of a row of `table`,
and of a row of `x`, which is quantised while the model runs. So the result of a row does not depend on other rows. A
row of `x` with an infinity or NaN gives NaN where it has to.

Products of float32 with a constant right operand of at least `LEAST` elements change, and kernels that copy rows of
such a constant. Everything else stays as it is. (Source: symmetric weights per channel with dynamic quantisation per
token, as in ZeroQuant, Yao et al. 2022.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from tvm import ir, relax, te, tirx

from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.graph.bindings import Graph, Rewrite, arguments_of, operator_of, rewritten
from deploykit.compiler.operators.building import integer_calls
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.operators.building.reduce_axes import MAXIMUM
from deploykit.compiler.operators.quantized.numbers import quantized
from deploykit.compiler.schedules.kernel.stages import Nest, Stage, read
from deploykit.compiler.tir.rewriting import collect, replace_loads, substitute
from deploykit.compiler.tir.values import const, static
from deploykit.mapped import forget

LEAST = 1 << 14
"""The fewest elements of a weight that becomes int8. Small ones are often the head of a model, where errors count."""

GREATEST = 127.0


@dataclass
class Quantized:
    """How many products and tables were quantised, and the bytes of their weights before and after."""

    products: int = 0
    tables: int = 0
    before: int = 0
    after: int = 0
    weights: dict[tuple[object, ...], tuple[relax.Constant, relax.Constant]] = field(default_factory=dict, repr=False)


def quantize_weights(mod: ir.IRModule, least: int = LEAST) -> tuple[ir.IRModule, Quantized]:
    """`mod` with quantised weights of at least `least` elements, and what changed."""
    builder = relax.BlockBuilder(mod)
    found = Quantized()

    def rewrite(func: relax.Function) -> Rewrite:
        return _Function(mod, builder, Graph(func), found, least).rewritten

    return rewritten(mod, builder, rewrite), found


class _Function:
    """Rewrites the products and look-ups of a function."""

    def __init__(
        self, mod: ir.IRModule, builder: relax.BlockBuilder, graph: Graph, found: Quantized, least: int
    ) -> None:
        self.mod, self.builder, self.graph, self.found, self.least = mod, builder, graph, found, least

    def rewritten(self, block: relax.BindingBlock) -> relax.BindingBlock:
        bindings: list[relax.Binding] = []
        rows: dict[relax.Expr, tuple[relax.Var, relax.Var]] = {}
        changed = False
        for binding in block.bindings:
            value = self.graph.values.get(binding.var)
            new = self.product(value, bindings, rows)
            if new is None:
                new = self.look_up(value)
            bindings.append(binding if new is None else relax.VarBinding(binding.var, new))
            changed = changed or new is not None
        return type(block)(bindings) if changed else block

    def product(
        self,
        value: relax.Expr | None,
        bindings: list[relax.Binding],
        rows: dict[relax.Expr, tuple[relax.Var, relax.Var]],
    ) -> relax.Call | None:
        """The product in `value`, as one of integers. `rows` are the left operands that are quantised already."""
        if value is None or operator_of(value) != "relax.matmul":
            return None
        left, weight = value.args
        if not self.is_large(weight) or value.ty.dtype != "float32" or len(left.ty.shape) < 2:
            return None
        whole, column = self.stored(weight, axis=-2)
        if left not in rows:
            step = self.bound("step", bindings, call_te(self.builder, _steps, left, name="row_steps"))
            rows[left] = self.bound("whole", bindings, call_te(self.builder, _whole, left, step, name="quantize")), step
        data, step = rows[left]
        total = integer_calls.matmul(data, whole, relax.TensorType(list(value.ty.shape), "int32"))
        self.found.products += 1
        total = self.bound("total", bindings, total)
        return call_te(self.builder, _scaled, total, step, column, name="scaled")

    def look_up(self, value: relax.Expr | None) -> relax.Call | None:
        """The copy of rows of a table in `value`, from quantised rows."""
        if value is None or operator_of(value) != "relax.call_tir":
            return None
        function, operands = self.mod[value.args[0]], arguments_of(value)
        nest = read(function)
        if len(operands) != 2 or not self.is_large(operands[0]) or len(operands[0].ty.shape) != 2:
            return None
        if not isinstance(nest, Nest) or len(nest.stages) != 1 or not isinstance(nest.stages[0], Stage):
            return None
        stage, table = nest.stages[0], function.params[0]
        if not stage.pointwise or stage.store is None or not isinstance(stage.store.value, ir.TensorLoad):
            return None
        load = stage.store.value
        axes = [axis.var for axis in stage.axes]
        place, column = load.indices
        if not load.source.same_as(table) or not column.same_as(axes[-1]) or axes[-1] in collect(place, ir.Var):
            return None

        def rows(whole: te.Tensor, step: te.Tensor, places: te.Tensor) -> te.Tensor:
            def element(*at: ir.Expr) -> ir.Expr:
                row = replace_loads(place, lambda inner: places(*inner.indices))
                row = substitute(row, dict(zip(axes, at, strict=True)))
                return whole(row, at[-1]).astype("float32") * step(row, const(0))

            return compute(list(value.ty.shape), element, name="rows")

        whole, step = self.stored(operands[0], axis=-1)
        self.found.tables += 1
        return call_te(self.builder, rows, whole, step, operands[1], name="rows")

    def is_large(self, weight: relax.Expr) -> bool:
        """Whether `weight` is a constant matrix, or several, that becomes int8."""
        if not isinstance(weight, ir.GenericConst) or weight.ty.dtype != "float32" or len(weight.ty.shape) < 2:
            return False
        return math.prod(static(extent) or 0 for extent in weight.ty.shape) >= self.least

    def stored(self, weight: relax.Constant, axis: int) -> tuple[relax.Constant, relax.Constant]:
        """The integers of a weight and their steps, each the same along `axis`."""
        array = array_of(weight)
        key = (array.ctypes.data, array.shape, axis)
        if key not in self.found.weights:
            step = np.abs(array).max(axis=axis, keepdims=True) / np.float32(GREATEST)
            whole = np.rint(array / np.where(step > 0, step, np.float32(1))).astype(np.int8)
            forget(array)
            self.found.before += array.nbytes
            self.found.after += whole.nbytes + step.nbytes
            self.found.weights[key] = constant(whole), constant(step)
        return self.found.weights[key]

    def bound(self, name: str, bindings: list[relax.Binding], value: relax.Call) -> relax.Var:
        """A new variable for `value`."""
        value = self.builder.normalize(value)
        var = relax.DataflowVar(name, value.ty)
        bindings.append(relax.VarBinding(var, value))
        return var


def _steps(x: te.Tensor) -> te.Tensor:
    """The step of each row of `x`. The bits of magnitudes are ordered as they are, with NaN as the greatest."""
    greatest = te.comm_reducer(MAXIMUM.combine, lambda dtype: tirx.const(0, dtype), name="greatest")
    column = reduce_axis(x.shape[-1], name="k")
    shape = [*x.shape[:-1], 1]

    def bits(*at: ir.Expr) -> ir.Expr:
        return greatest(tirx.reinterpret("int32", tirx.abs(x(*at[:-1], column))), axis=column)

    total = compute(shape, bits, name="greatest")
    return compute(
        shape, lambda *at: tirx.reinterpret("float32", total(*at)) / tirx.const(GREATEST, "float32"), "steps"
    )


def _whole(x: te.Tensor, step: te.Tensor) -> te.Tensor:
    """`x` in steps of its rows. A row of zeros, or with an infinity or NaN, becomes zeros."""

    def element(*at: ir.Expr) -> ir.Expr:
        size = step(*at[:-1], const(0))
        usable = tirx.all(size > 0, size < tirx.const(float("inf"), "float32"))
        quotient = x(*at) / tirx.Select(usable, size, tirx.const(1, "float32"))
        return quantized(tirx.Select(usable, quotient, tirx.const(0, "float32")), None, "int8")

    return compute(list(x.shape), element, name="quantize")


def _scaled(total: te.Tensor, step: te.Tensor, column: te.Tensor) -> te.Tensor:
    """`total` (..., M, N) times the step of the row and that of the column."""

    def element(*at: ir.Expr) -> ir.Expr:
        by_row = step(*at[len(at) - len(step.shape) : -1], const(0))
        by_column = column(*at[len(at) - len(column.shape) : -2], const(0), at[-1])
        return total(*at).astype("float32") * by_row * by_column

    return compute(list(total.shape), element, name="scaled")
