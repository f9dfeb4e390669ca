"""Stores the output layer of a language model in groups of few bits, of a kind of its own.

    x @ transpose(head)    ->    grouped_matmul(kind, x, head)
    head[ids]              ->    grouped_rows(kind, ids, head)    where the table of words is the same matrix

The output layer is a product that gives an output of the model, with a column for each row of a table: the scores of
words. Between the product and the output are only kernels that keep this number of columns. Its weight is float32, or
in groups already (`operators.building.grouped_calls`); then it is rounded a second time. A table that is the same
matrix is stored once with it. All other weights stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from tvm import ir, relax

from deploykit.compiler.constants import array_of
from deploykit.compiler.graph.bindings import Graph, Rewrite, arguments_of, operator_of, rewritten
from deploykit.compiler.graph.quantize_weights import LEAST, Groups, Key, Quantized, identified
from deploykit.compiler.operators.building.grouped_calls import MATMUL, ROWS, GroupedCall, read, rows
from deploykit.compiler.operators.quantized.groups import FORMATS, Grouped, regrouped
from deploykit.compiler.tir.values import static


@dataclass
class Head:
    """What changed, and the kinds in which output layers were before: `float32`, or those of groups. It is empty for a
    model without an output layer of words."""

    quantized: Quantized = field(default_factory=Quantized)
    was: set[str] = field(default_factory=set)


def quantize_head(mod: ir.IRModule, kind: str, least: int = LEAST) -> tuple[ir.IRModule, Head]:
    """`mod` with output layers of at least `least` elements in a kind of groups, and what changed."""
    builder = relax.BlockBuilder(mod)
    head = Head()

    def rewrite(func: relax.Function) -> Rewrite:
        return _Function(mod, builder, func, head, kind, least).rewritten

    return rewritten(mod, builder, rewrite), head


class _Function(Groups):
    """Rewrites the output layer of a function, and look-ups of its rows. `heads` are the weights of output layers, and
    `words` their numbers of columns."""

    def __init__(
        self, mod: ir.IRModule, builder: relax.BlockBuilder, func: relax.Function, head: Head, kind: str, least: int
    ) -> None:
        super().__init__(mod, builder, Graph(func), head.quantized, least, kind)
        self.heads: set[Key] = set()
        self.words: set[int] = set()
        for product in self.scoring(func.body.body):
            call = read(product)
            was = "float32" if call is None else call.format
            head.was.add(was)
            if was != kind:
                self.heads.add(identified(product.args[1], -2)[0] if call is None else _key(call))
                self.words.add(int(product.ty.shape[-1]))

    def scoring(self, result: relax.Expr) -> Iterator[relax.Call]:
        """The products whose columns are words, from the result of the function on."""
        tables = {size for value in self.graph.values.values() if (size := self.rows_of_table(value))}
        waiting, seen = [result], set[relax.Expr]()
        while waiting:
            var = waiting.pop()
            value = self.graph.values.get(var, var)
            if var in seen:
                continue
            seen.add(var)
            if isinstance(value, relax.Tuple):
                waiting.extend(value.fields)
            elif (words := _columns(value)) in tables:
                if self.scores(value):
                    yield value
                waiting += [x for x in arguments_of(value) if isinstance(x, relax.Var) and _columns(x) == words]

    def rows_of_table(self, value: relax.Expr) -> int | None:
        """The number of rows of a large matrix, if `value` reads it at indices."""
        if (call := read(value)) is not None:
            return int(call.weight[0].ty.shape[0]) if call.function == ROWS else None
        operands = arguments_of(value) if operator_of(value) == "relax.call_tir" else []
        if not any(isinstance(x, relax.Var) and str(x.ty.dtype) in ("int32", "int64") for x in operands):
            return None
        return next((int(x.ty.shape[0]) for x in operands if self.is_large(x) and len(x.ty.shape) == 2), None)

    def scores(self, value: relax.Expr) -> bool:
        """Whether `value` is a product with a matrix that is in groups or can be."""
        if (call := read(value)) is not None:
            return call.function == MATMUL
        return (
            operator_of(value) == "relax.matmul" and self.is_large(value.args[1]) and len(value.args[1].ty.shape) == 2
        )

    def kind_for(self, *_: object) -> str:
        return self.kind

    def stored(self, weight: relax.Expr, axis: int) -> tuple[relax.Constant, ...] | None:
        if not self.is_large(weight) or static(weight.ty.shape[1 if axis == -2 else 0]) not in self.words:
            return None
        return super().stored(weight, axis)

    def kept(self, key: Key, matrix: np.ndarray, axis: int) -> tuple[relax.Constant, ...] | None:
        return super().kept(key, matrix, axis) if key in self.heads else None

    def as_product(self, value: relax.Expr | None) -> relax.Call | None:
        found = self.again(value, MATMUL)
        if found is None:
            return super().as_product(value)
        self.found.products += 1
        return found

    def as_look_up(self, value: relax.Expr | None) -> relax.Call | None:
        found = self.again(value, ROWS)
        if found is None:
            return super().as_look_up(value)
        self.found.tables += 1
        return found

    def again(self, value: relax.Expr | None, function: str) -> relax.Call | None:
        """The call of `function` in `value`, with the weight of an output layer in another kind of groups."""
        call = read(value)
        if call is None or value is None or call.function != function or (key := _key(call)) not in self.heads:
            return None
        if key not in self.found.weights:
            codes, scales, *minima = map(array_of, call.weight)
            given = Grouped(FORMATS[call.format], codes, scales, minima[0] if minima else None)
            self.keep(key, given.nbytes, regrouped(given, FORMATS[self.kind]))
        weight = self.found.weights[key]
        if weight is None:
            return None
        if function == MATMUL:
            return self.product(call.operand, weight, value.ty.shape)
        return rows(self.found.formats[weight[0]], call.operand, weight, value.ty)


def _key(call: GroupedCall) -> Key:
    """Tells weights in groups from each other."""
    return "groups", hash(call.weight[0].value)


def _columns(value: relax.Expr) -> int | None:
    """The last extent of a tensor, if it is a number."""
    shape = getattr(value.ty, "shape", None)
    return static(shape[-1]) if shape else None
