"""Stores a table whose transpose is the weight of a product once: look-ups read its rows from the packed weight.

    table[index], x @ transpose(table)    ->    panels[place(index)], packed_product(x, panels)

Models whose embeddings are also the weights of their output have such a table. The product reads its panels as before.
A row of the table lies in them with gaps, so a look-up takes longer than from the table; but the product reads the
whole table where a look-up reads a row for each index, so this time is lost in that of the product.

The pass looks at what the constants hold, not at where they come from. A table stays if anything else than look-ups
reads it, and if the product that has its transpose is in another function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax, te, tirx

from deploykit.basics.mapped import forget, pieces
from deploykit.compiler.constants import array_of
from deploykit.compiler.decisions import Decision, Note, unheard
from deploykit.compiler.graph.bindings import Graph, Rewrite, arguments_of, each_binding, operator_of, rewritten
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.kernel_calls import call_te, is_tensor
from deploykit.compiler.schedules.kernel.stages import Nest, Stage
from deploykit.compiler.schedules.kernel.stages import read as read_stages
from deploykit.compiler.tir.rewriting import Expr, collect, replace_loads, substitute

LEAST = 1 << 14
"""The fewest elements of a table."""


@dataclass(frozen=True)
class Packed:
    """A weight `[K, N]` of a product in a packed form. `place(k, n)` is the index of an element in `panels`."""

    weight: relax.Constant
    panels: relax.Constant
    place: Callable[[Expr, Expr], tuple[Expr, ...]]


def share_tables(mod: ir.IRModule, packed: Sequence[Packed], note: Note = unheard) -> ir.IRModule:
    """`mod`, with look-ups from such tables replaced. `packed` are weights whose products are kernels already."""
    builder = relax.BlockBuilder(mod)

    def rewrite(func: relax.Function) -> Rewrite:
        return each_binding(_Function(mod, builder, Graph(func), packed, note).rewritten)

    return rewritten(mod, builder, rewrite) if packed else mod


@dataclass(frozen=True)
class _LookUp:
    """A kernel whose element at `axes` is `element`, computed from the operands `sources`, of which one is a table."""

    sources: Sequence[ir.Var]
    axes: Sequence[ir.Var]
    element: Expr


class _Function:
    """Rewrites the look-ups of a function."""

    def __init__(
        self, mod: ir.IRModule, builder: relax.BlockBuilder, graph: Graph, packed: Sequence[Packed], note: Note
    ) -> None:
        self.mod, self.builder, self.graph, self.note = mod, builder, graph, note
        read_here = {_address(operand) for value in graph.values.values() for operand in _constants(value)}
        here = [each for each in packed if _address(each.panels) in read_here]
        self.packed = {address: found for address, table in self.tables().items() if (found := _same(table, here))}

    def tables(self) -> Mapping[int, relax.Constant]:
        """The tables that only look-ups read, by their addresses."""
        found: dict[int, relax.Constant] = {}
        others: set[int] = set()
        for value in self.graph.values.values():
            for operand in _constants(value):
                if self.look_up(value, operand) is None:
                    others.add(_address(operand))
                else:
                    found[_address(operand)] = operand
        return {address: table for address, table in found.items() if address not in others}

    def look_up(self, value: relax.Expr, table: relax.Constant) -> _LookUp | None:
        """The look-up in `value`, if it is one from this table."""
        sizes = [int(extent) for extent in table.ty.shape]
        if len(sizes) != 2 or sizes[0] * sizes[1] < LEAST or operator_of(value) != "relax.call_tir":
            return None
        func, operands = self.mod[value.args[0]], arguments_of(value)
        if len(value.args) > 2 or not all(map(is_tensor, operands)):
            return None
        nest = read_stages(func)
        if not isinstance(nest, Nest) or len(nest.stages) != 1 or not isinstance(nest.stages[0], Stage):
            return None
        stage = nest.stages[0]
        if not stage.pointwise or stage.store is None:
            return None
        sources, axes = list(func.params)[: len(operands)], [axis.var for axis in stage.axes]
        known = {*axes, *sources}
        if set(tirx.analysis.undefined_vars(stage.store.value)) - known:
            return None
        loads = [load for load in stage.loads if load.source.same_as(sources[list(operands).index(table)])]
        looked_up = loads and all(collect(load.indices[0], ir.TensorLoad) for load in loads)
        return _LookUp(sources, axes, stage.store.value) if looked_up else None

    def rewritten(self, binding: relax.Binding) -> relax.Binding:
        value = self.graph.values.get(binding.var)
        for operand in _constants(value):
            packed = self.packed.get(_address(operand))
            if packed is not None:
                self.note(Decision("share_tables", binding.var.name, "reads rows from the packed weight of a product"))
                return relax.VarBinding(binding.var, self.from_panels(value, operand, packed))
        return binding

    def from_panels(self, value: relax.Expr, table: relax.Constant, packed: Packed) -> relax.Call:
        """The look-up in `value`, from the panels."""
        found, operands = self.look_up(value, table), list(arguments_of(value))
        assert found is not None
        place = operands.index(table)

        def rows(*tensors: te.Tensor) -> te.Tensor:
            given = dict(zip(found.sources, tensors, strict=True))

            def element(*at: Expr) -> Expr:
                def load(old: ir.TensorLoad) -> Expr:
                    if old.source.same_as(found.sources[place]):
                        row, column = old.indices
                        return tensors[place](*packed.place(column, row))
                    return given[old.source](*old.indices)

                return replace_loads(substitute(found.element, dict(zip(found.axes, at, strict=True))), load)

            return compute(list(value.ty.shape), element, name="rows")

        operands[place] = packed.panels
        return call_te(self.builder, rows, *operands, name="rows")


def _constants(value: relax.Expr | None) -> list[relax.Constant]:
    return [] if value is None else [each for each in arguments_of(value) if isinstance(each, ir.GenericConst)]


def _address(value: relax.Constant) -> int:
    return int(array_of(value).ctypes.data)


def _same(table: relax.Constant, packed: Sequence[Packed]) -> Packed | None:
    """The first of `packed` whose weight is the transpose of `table`."""
    return next((each for each in packed if is_transpose(array_of(table), array_of(each.weight))), None)


def is_transpose(table: np.ndarray, weight: np.ndarray) -> bool:
    """Whether `weight` is the transpose of the matrix `table`, bit by bit."""
    if table.ndim != 2 or not table.size or table.dtype != weight.dtype or table.shape != weight.shape[::-1]:
        return False
    a, b = (array.view(f"u{array.itemsize}") for array in (table, weight))
    # Most matrices of one shape differ in their first row already, and no piece of them is read.
    same = np.array_equal(a[0], b[:, 0]) and all(np.array_equal(piece, b[:, rows].T) for rows, piece in pieces(a))
    forget(weight)
    return same
