"""Stores the large weights of products and tables in fewer bytes.

As int8, a quarter of the bytes, with products of integers:

    x @ w           ->    (q(x) @ q(w)) * (step(x) * step(w))        exact sums of products of int8
    table[index]    ->    q(table)[index] * step(table)[index]

`q(v) = round(v / step)`, and `step` is the greatest magnitude divided by 127: of a column of `w`, of a row of `table`,
and of a row of `x`, which is quantised while the model runs. So the result of a row does not depend on other rows. A
row of `x` with an infinity or NaN gives NaN where it has to. (Source: symmetric weights per channel with dynamic
quantisation per token, as in ZeroQuant, Yao et al. 2022.) Weights may have 7 bits, for instructions that take so many
of one operand; then, of some shorter steps, the one with the smallest squared error is taken.

In groups of few bits (`operators.quantized.groups`), with products of integers as well: `q4`, `q4_1` and `q8`.

As fp16, half of the bytes, with products in float32: an element of `w` or `table` is widened where it is read.

Products of float32 with a constant right operand of at least `LEAST` elements change, and kernels that copy rows of
such a constant. Everything else stays as it is, and so does a weight that has no such form: one with an infinity or
NaN, or with numbers beyond those of fp16.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from tvm import ir, relax, te, tirx

from deploykit.basics.mapped import forget, pieces
from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.graph.bindings import Graph, Rewrite, arguments_of, operator_of, rewritten
from deploykit.compiler.graph.share_tables import is_transpose
from deploykit.compiler.operators.building import grouped_calls, integer_calls
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.operators.building.reduce_axes import MAXIMUM
from deploykit.compiler.operators.quantized.groups import FORMATS, Grouped, grouped
from deploykit.compiler.operators.quantized.numbers import quantized
from deploykit.compiler.schedules.kernel.stages import Nest, Stage, read
from deploykit.compiler.tir.rewriting import collect, replace_loads, substitute
from deploykit.compiler.tir.values import const, static

Kind: TypeAlias = Literal["int8", "fp16", "q4", "q4_1", "q8"]

Row: TypeAlias = Callable[[te.Tensor, Sequence[ir.Expr]], ir.Expr]
"""Gives the row of a table for an element, from the tensor of indices."""

Key: TypeAlias = "tuple[object, ...]"
"""Tells weights from each other."""

LEAST = 1 << 14
"""The fewest elements of a weight that changes. Small ones are often the head of a model, where errors count."""

GREATEST = 127.0

SHORTER = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""What steps of weights in fewer than 8 bits are tried times: numbers beyond the greatest become the greatest then."""


@dataclass
class Quantized:
    """How many products and tables were quantised, and the bytes of their weights before and after. A table whose
    transpose is the weight of a product counts once: it is stored once (`share_tables`)."""

    products: int = 0
    tables: int = 0
    before: int = 0
    after: int = 0
    beyond: int = 0
    """How many weights have numbers that the form has not."""
    weights: dict[Key, tuple[relax.Constant, ...] | None] = field(default_factory=dict, repr=False)
    """The constants that stand for a weight; None for one that stays."""
    formats: dict[relax.Constant, str] = field(default_factory=dict, repr=False)
    """The format of a weight in groups, by its codes."""
    words: set[int] = field(default_factory=set, repr=False)
    """The numbers of rows of tables."""
    counted: list[np.ndarray] = field(default_factory=list, repr=False)
    """The weights whose bytes were counted."""

    def count(self, weight: np.ndarray, stored: Sequence[np.ndarray]) -> None:
        """Count the bytes of a weight, and of what stands for it."""
        if any(is_transpose(weight, other) for other in self.counted):
            return
        self.counted.append(weight)
        self.before += weight.nbytes
        self.after += sum(part.nbytes for part in stored)


def quantize_weights(
    mod: ir.IRModule, kind: Kind = "int8", least: int = LEAST, greatest: float = GREATEST
) -> tuple[ir.IRModule, Quantized]:
    """`mod` with weights of at least `least` elements in fewer bytes, and what changed. `greatest` is the greatest
    integer of weights of the kind `int8`."""
    builder = relax.BlockBuilder(mod)
    found = Quantized()

    def rewrite(func: relax.Function) -> Rewrite:
        if kind == "int8":
            return _Integers(mod, builder, Graph(func), found, least, greatest).rewritten
        if kind == "fp16":
            return _Halves(mod, builder, Graph(func), found, least).rewritten
        return Groups(mod, builder, Graph(func), found, least, kind).rewritten

    return rewritten(mod, builder, rewrite), found


class _Function(ABC):
    """Rewrites the products and look-ups of a function. `rows` are the left operands that are quantised already."""

    def __init__(
        self, mod: ir.IRModule, builder: relax.BlockBuilder, graph: Graph, found: Quantized, least: int
    ) -> None:
        self.mod, self.builder, self.graph, self.found, self.least = mod, builder, graph, found, least
        self.bindings: list[relax.Binding] = []
        self.rows: dict[relax.Expr, tuple[relax.Var, relax.Var]] = {}

    @abstractmethod
    def stored(self, weight: relax.Expr, axis: int) -> tuple[relax.Constant, ...] | None:
        """The constants that stand for a weight whose numbers along `axis` share what can be shared; None if it
        stays."""

    @abstractmethod
    def product(self, left: relax.Expr, weight: Sequence[relax.Constant], shape: relax.ShapeExpr) -> relax.Call:
        """`left` times a weight, which has that shape. May add to `bindings`."""

    @abstractmethod
    def looked_up(self, table: Sequence[relax.Constant], places: relax.Expr, row: Row, shape: list[Any]) -> relax.Call:
        """Rows of a table, in a tensor of this shape. May add to `bindings`."""

    def rewritten(self, block: relax.BindingBlock) -> relax.BindingBlock:
        self.bindings, self.rows = [], {}
        changed = False
        for binding in block.bindings:
            value = self.graph.values.get(binding.var)
            new = self.as_product(value)
            if new is None:
                new = self.as_look_up(value)
            self.bindings.append(binding if new is None else relax.VarBinding(binding.var, new))
            changed = changed or new is not None
        return type(block)(self.bindings) if changed else block

    def as_product(self, value: relax.Expr | None) -> relax.Call | None:
        """The product in `value` with its weight in fewer bytes."""
        if value is None or operator_of(value) != "relax.matmul":
            return None
        left, weight = value.args
        if left.ty.dtype != "float32" or len(left.ty.shape) < 2:
            return None
        stored = self.stored(weight, axis=-2)
        if stored is None:
            return None
        self.found.products += 1
        return self.product(left, stored, value.ty.shape)

    def as_look_up(self, value: relax.Expr | None) -> relax.Call | None:
        """The copy of rows of a table in `value`, from a table in fewer bytes."""
        if value is None or operator_of(value) != "relax.call_tir":
            return None
        function, operands = self.mod[value.args[0]], arguments_of(value)
        nest = read(function)
        if len(operands) != 2 or not self.is_large(operands[0]) or len(operands[0].ty.shape) != 2:
            return None
        if not isinstance(nest, Nest) or len(nest.stages) != 1 or not isinstance(nest.stages[0], Stage):
            return None
        stage = nest.stages[0]
        if not stage.pointwise or stage.store is None or not isinstance(stage.store.value, ir.TensorLoad):
            return None
        load = stage.store.value
        axes = [axis.var for axis in stage.axes]
        if not load.source.same_as(function.params[0]):
            return None
        place, column = load.indices
        stored = self.stored(operands[0], axis=-1)
        if not column.same_as(axes[-1]) or axes[-1] in collect(place, ir.Var) or stored is None:
            return None

        def row(places: te.Tensor, at: Sequence[ir.Expr]) -> ir.Expr:
            """The row for an element at `at`, along all axes but the last one."""
            whole = replace_loads(place, lambda inner: places(*inner.indices))
            return substitute(whole, dict(zip(axes, at, strict=False)))

        self.found.tables += 1
        return self.looked_up(stored, operands[1], row, list(value.ty.shape))

    def bound(self, name: str, value: relax.Call) -> relax.Var:
        """A new variable for `value`."""
        value = self.builder.normalize(value)
        var = relax.DataflowVar(name, value.ty)
        self.bindings.append(relax.VarBinding(var, value))
        return var

    def is_large(self, weight: relax.Expr) -> bool:
        """Whether `weight` is a constant matrix, or several, with enough elements."""
        if not isinstance(weight, ir.GenericConst) or weight.ty.dtype != "float32" or len(weight.ty.shape) < 2:
            return False
        return math.prod(static(extent) or 0 for extent in weight.ty.shape) >= self.least


class _Elements(_Function):
    """Weights with an element for each of theirs."""

    @abstractmethod
    def form(self, weight: np.ndarray, axis: int) -> tuple[np.ndarray, ...] | None:
        """The arrays that stand for a weight whose numbers along `axis` share what can be shared; None if there are
        none."""

    @abstractmethod
    def element(self, table: Sequence[te.Tensor], row: ir.Expr, column: ir.Expr) -> ir.Expr:
        """An element of a table in float32."""

    def stored(self, weight: relax.Expr, axis: int) -> tuple[relax.Constant, ...] | None:
        if not self.is_large(weight):
            return None
        array = array_of(weight)
        key = (array.ctypes.data, array.shape, axis)
        if key not in self.found.weights:
            found = self.form(array, axis)
            forget(array)
            self.found.weights[key] = None if found is None else tuple(map(constant, found))
            if found is None:
                self.found.beyond += 1
            else:
                self.found.count(array, found)
        return self.found.weights[key]

    def looked_up(self, table: Sequence[relax.Constant], places: relax.Expr, row: Row, shape: list[Any]) -> relax.Call:
        def rows(*tensors: te.Tensor) -> te.Tensor:
            *parts, given = tensors
            return compute(shape, lambda *at: self.element(parts, row(given, at), at[-1]), name="rows")

        return call_te(self.builder, rows, *table, places, name="rows")


class _Halves(_Elements):
    """Weights in float16."""

    def form(self, weight: np.ndarray, axis: int) -> tuple[np.ndarray, ...] | None:
        del axis
        halves = np.empty(weight.shape, np.float16)
        for place, piece in pieces(weight):
            with np.errstate(over="ignore"):
                halves[place] = piece
            if not np.isfinite(halves[place]).all():
                return None
        return (halves,)

    def product(self, left: relax.Expr, weight: Sequence[relax.Constant], shape: relax.ShapeExpr) -> relax.Call:
        del shape
        return relax.op.matmul(left, weight[0], out_dtype="float32")

    def element(self, table: Sequence[te.Tensor], row: ir.Expr, column: ir.Expr) -> ir.Expr:
        return table[0](row, column).astype("float32")


class _Integers(_Elements):
    """Weights in int8, up to the integer `greatest`, with a step for each column of a weight or row of a table."""

    def __init__(
        self,
        mod: ir.IRModule,
        builder: relax.BlockBuilder,
        graph: Graph,
        found: Quantized,
        least: int,
        greatest: float,
    ) -> None:
        super().__init__(mod, builder, graph, found, least)
        self.greatest = np.float32(greatest)

    def form(self, weight: np.ndarray, axis: int) -> tuple[np.ndarray, ...] | None:
        lead, shape = weight.shape[:-2], list(weight.shape)
        shape[axis] = 1
        whole, step = np.empty(weight.shape, np.int8), np.zeros(shape, np.float32)
        for at in np.ndindex(lead):
            matrix, steps = weight[at], step[at]
            for rows, piece in pieces(matrix):
                own = steps if axis == -2 else steps[rows]
                np.maximum(own, np.abs(piece).max(axis=axis, keepdims=True) / self.greatest, out=own)
            if not np.isfinite(steps).all():
                return None
            if self.greatest < GREATEST:
                steps *= self.shorter(matrix, steps, axis)
            for rows, piece in pieces(matrix):
                whole[at][rows] = self.rounded(piece, steps if axis == -2 else steps[rows])
        return whole, step

    def rounded(self, piece: np.ndarray, step: np.ndarray) -> np.ndarray:
        """A piece of a weight in steps."""
        whole = np.rint(piece / np.where(step > 0, step, np.float32(1)))
        return np.clip(whole, -self.greatest, self.greatest)

    def shorter(self, matrix: np.ndarray, steps: np.ndarray, axis: int) -> np.ndarray:
        """Of `SHORTER`, what gives the steps with the smallest squared errors."""
        errors = np.zeros((len(SHORTER), *steps.shape), np.float32)
        for rows, piece in pieces(matrix):
            place = slice(None) if axis == -2 else rows
            for error, factor in zip(errors, SHORTER, strict=True):
                step = steps[place] * np.float32(factor)
                error[place] += np.square(self.rounded(piece, step) * step - piece).sum(axis=axis, keepdims=True)
        best: np.ndarray = np.asarray(SHORTER, np.float32).take(errors.argmin(axis=0))
        return best

    def product(self, left: relax.Expr, weight: Sequence[relax.Constant], shape: relax.ShapeExpr) -> relax.Call:
        whole, column = weight
        if left not in self.rows:
            step = self.bound("step", call_te(self.builder, _steps, left, name="row_steps"))
            self.rows[left] = self.bound("whole", call_te(self.builder, _whole, left, step, name="quantize")), step
        data, step = self.rows[left]
        total = self.bound("total", integer_calls.matmul(data, whole, relax.TensorType(list(shape), "int32")))
        return call_te(self.builder, _scaled, total, step, column, name="scaled")

    def element(self, table: Sequence[te.Tensor], row: ir.Expr, column: ir.Expr) -> ir.Expr:
        whole, step = table
        return whole(row, column).astype("float32") * step(row, const(0))


class Groups(_Function):
    """Weights in groups of few bits. A weight is kept with its outputs as rows, as tables have them, so that a table
    that is the weight of a product, too, is one."""

    def __init__(
        self,
        mod: ir.IRModule,
        builder: relax.BlockBuilder,
        graph: Graph,
        found: Quantized,
        least: int,
        kind: str,
    ) -> None:
        super().__init__(mod, builder, graph, found, least)
        self.kind = kind

    def kind_for(self, matrix: np.ndarray, axis: int) -> str:
        """The format of a matrix. Tables of words, and the weights of products that score all words, have 8 bits:
        errors count most there."""
        if axis == -1:
            self.found.words.add(len(matrix))
        return "q8" if len(matrix) in self.found.words else self.kind

    def stored(self, weight: relax.Expr, axis: int) -> tuple[relax.Constant, ...] | None:
        if not self.is_large(weight) or len(weight.ty.shape) != 2:
            return None
        return self.kept(*identified(weight, axis), axis)

    def kept(self, key: Key, matrix: np.ndarray, axis: int) -> tuple[relax.Constant, ...] | None:
        """What stands for a matrix with its outputs as rows, as `stored`."""
        if key not in self.found.weights:
            self.keep(key, matrix.nbytes, grouped(matrix, FORMATS[self.kind_for(matrix, axis)]))
        return self.found.weights[key]

    def keep(self, key: Key, before: int, found: Grouped | None) -> None:
        """Remember what stands for a weight that had `before` bytes; None: it has no such form."""
        self.found.weights[key] = None
        if found is None:
            self.found.beyond += 1
            return
        constants = tuple(map(constant, found.arrays))
        self.found.weights[key] = constants
        self.found.formats[constants[0]] = found.format.name
        self.found.before += before
        self.found.after += found.nbytes

    def product(self, left: relax.Expr, weight: Sequence[relax.Constant], shape: relax.ShapeExpr) -> relax.Call:
        return grouped_calls.matmul(
            self.found.formats[weight[0]], left, weight, relax.TensorType(list(shape), "float32")
        )

    def looked_up(self, table: Sequence[relax.Constant], places: relax.Expr, row: Row, shape: list[Any]) -> relax.Call:
        def indices(given: te.Tensor) -> te.Tensor:
            return compute(shape[:-1], lambda *at: row(given, at).astype("int64"), name="indices")

        found = self.bound("indices", call_te(self.builder, indices, places, name="indices"))
        return grouped_calls.rows(self.found.formats[table[0]], found, table, relax.TensorType(shape, "float32"))


def identified(weight: relax.Constant, axis: int) -> tuple[Key, np.ndarray]:
    """A weight with its outputs as rows, and what tells it from others."""
    array = array_of(weight)
    matrix = np.ascontiguousarray(array.T if axis == -2 else array)
    forget(array)
    return (hashlib.blake2b(matrix.data, digest_size=16).digest(), matrix.shape), matrix


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
    """`total` (..., M, N) times the step of the row and that of the column. Axes of extent 1 are broadcast."""

    def element(*at: ir.Expr) -> ir.Expr:
        by_row, by_column = (steps(*_broadcast(steps.shape, at)) for steps in (step, column))
        return total(*at).astype("float32") * by_row * by_column

    return compute(list(total.shape), element, name="scaled")


def _broadcast(shape: Sequence[Any], at: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The index in a tensor of `shape` for the element at `at` of one that it is broadcast to."""
    own = at[len(at) - len(shape) :]
    return [const(0) if static(extent) == 1 else index for extent, index in zip(shape, own, strict=True)]
