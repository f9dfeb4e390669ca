"""The stages of a dense kernel that computes a ragged tensor, as tensor expressions over views of its operands.

The depth of a product that ends at a place that depends on the row has the extent that is needed for all rows. Beyond
the end, 0 is added: `if_then_else(k < end(row), a * b, 0)`. Likewise, if a row has columns up to an end, the result is
computed for all columns, and `stored` under the condition `column < end(row)`. The rule for products takes both apart
(`schedules.matmul.ends`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, te, tirx

from deploykit.compiler.dims.conversion import as_expr
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.ragged.expressions import FUNCTIONS
from deploykit.compiler.ragged.nests import neutral
from deploykit.compiler.ragged.storage import Storage
from deploykit.compiler.ragged.views import View, is_product, row_of
from deploykit.compiler.schedules.kernel.stages import GUARDED
from deploykit.compiler.tir.extrema import maximum, minimum
from deploykit.compiler.tir.rewriting import Expr, replace_loads, substitute
from deploykit.ragged.indices import Dim, Index
from deploykit.ragged.values import Apply, Literal, Load, OfIndex, Reduce, Tensor, Value

REDUCERS: Mapping[str, Callable[..., Any]] = {
    "sum": te.sum,
    "max": te.comm_reducer(maximum, lambda dtype: neutral("max", dtype), "max"),
    "min": te.comm_reducer(minimum, lambda dtype: neutral("min", dtype), "min"),
}


@dataclass
class Stages:
    """The stages of a dense kernel as tensor expressions. `rows` is the extent of a loop over tokens; None if the
    kernel is for one instance. `extents` are the variables of extents that depend on the instance, `sizes` those of the
    elements that an operand with a flat view has in the instance, and `loaded` those of other values that are loaded
    for the instance."""

    storage: Storage
    tensor: Tensor
    views: Mapping[Tensor, View]
    rows: IntExpr | None
    extents: dict[Index, tirx.Var] = field(default_factory=dict)
    sizes: dict[Tensor, tirx.Var] = field(default_factory=dict)
    loaded: dict[tirx.Var, ir.TensorLoad] = field(default_factory=dict)
    sources: dict[Tensor, te.Tensor] = field(default_factory=dict)

    def shape(self, view: View) -> list[Expr]:
        """The shape of a view."""
        tensor = view.tensor
        if view.flat and view.dropped:
            return [self.sizes.setdefault(tensor, tirx.Var(f"{tensor.name}_elements", "int64"))]
        if view.flat:
            return [self.storage.layout(tensor.dims).total.expr()]
        mine = {tensor.dims[0]: self.tensor.dims[0].index} if view.dropped else {}
        shape = [self._extent(dim.extent.at(mine)) for dim in tensor.dims[view.dropped :]]
        return [self.rows, *shape] if view.dropped and self.rows is not None else shape

    def results(self, inputs: Mapping[Tensor, te.Tensor]) -> te.Tensor:
        """The result, computed from the views of operands."""
        self.sources = dict(inputs)
        view = self.views[self.tensor]
        shape = [self._extent(self._most(dim)) for dim in self._rest] if view.flat else self.shape(view)
        reduction, value = self.tensor.reduction, self.tensor.value
        assert value is not None
        if reduction is None:
            return te.compute(shape, lambda *at: self._expr(value, self._at(at), at[0], None), name="element")
        most = {dim: self._extent(self._most(dim)) for dim in reduction.dims}
        axes = {dim: te.reduce_axis((0, extent), name=dim.name) for dim, extent in most.items()}

        def total(*at: tirx.Var) -> Expr:
            values = {**self._at(at), **{self.storage.variable(dim): axis.var for dim, axis in axes.items()}}
            element = self._expr(reduction.value, values, at[0], None)
            for dim, axis in axes.items():
                if row_of(dim, self._rest) is not None:
                    there = axis.var < substitute(self._end(dim.extent), values)
                    element = tirx.if_then_else(there, element, tirx.const(0, reduction.dtype))
            result: Expr = REDUCERS[reduction.kind](element, axis=list(axes.values()))
            return result

        attrs = {ANCHOR: "matmul"} if self._is_matmul(reduction) else None
        made = te.compute(shape, total, name="total", attrs=attrs)
        if value is reduction and not view.flat:
            return made
        return te.compute(shape, lambda *at: self._expr(value, self._at(at), at[0], made(*at)), name="result")

    def stored(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """A kernel of these stages with a flat result: `func`, with those elements stored that exist."""
        view = self.views[self.tensor]
        *params, whole = func.params
        flat = tirx.decl_buffer(self.shape(view), self.tensor.dtype, self.tensor.name, layout=None)

        def block(found: s_tir.SBlock) -> s_tir.SBlock:
            store = found.body
            if not isinstance(store, tirx.BufferStore) or not store.buffer.same_as(whole):
                return found
            at = {self.storage.variable(dim): index for dim, index in zip(self._rest, store.indices, strict=True)}
            there = store.indices[-1] < substitute(self._end(self._rest[-1].extent), at)
            place = self._place(view, [dim.index for dim in self._rest], at)
            body = tirx.IfThenElse(there, tirx.BufferStore(flat, store.value, [place]), None)
            return s_tir.SBlock(found.iter_vars, [], [], found.name_hint, body, annotations={GUARDED: 1})

        body = tvm_ffi.structural_map(func.body, (s_tir.SBlock, block), order="post")
        return tirx.PrimFunc([*params, flat], body, None, func.attrs)

    def _is_matmul(self, reduction: Reduce) -> bool:
        return reduction.kind == "sum" and len(reduction.dims) == 1 and is_product(reduction.value)

    def _at(self, at: Sequence[tirx.Var]) -> dict[tirx.Var, Expr]:
        view = self.views[self.tensor]
        own = at[1:] if self.rows is not None else at
        dims = self.tensor.dims[view.dropped :]
        return {self.storage.variable(dim): var for dim, var in zip(dims, own, strict=True)}

    @property
    def _rest(self) -> tuple[Dim, ...]:
        """The dims of the result without those that say which instance it is."""
        return self.tensor.dims[self.views[self.tensor].dropped :]

    def _most(self, dim: Dim) -> Index:
        """The extent of a reduced dim for the row that has the largest."""
        row = row_of(dim, self._rest)
        if row is None:
            return dim.extent
        rising = dict(dim.extent.terms)[row] > 0
        return dim.extent.at({row: row.extent.plus(Index((), -1)) if rising else Index()})

    def _end(self, extent: Index) -> Expr:
        """An extent that depends on a row, over the variable of the row."""
        own = set(self._rest)
        rows = Index(tuple((atom, factor) for atom, factor in extent.terms if atom in own))
        return self.storage.expr(rows) + self._extent(extent.plus(rows.times(-1)))

    def _place(self, view: View, indices: Sequence[Index], at: Mapping[tirx.Var, Expr]) -> Expr:
        """The place of an element among those of a flat view."""
        layout = self.storage.layout(view.tensor.dims)
        values = [substitute(self.storage.expr(index), at) for index in indices]
        batch = {layout.variables[0]: self.storage.variable(self.tensor.dims[0])} if view.dropped else {}
        return replace_loads(substitute(layout.within(view.dropped, values), batch), self._load)

    def _load(self, load: ir.TensorLoad) -> Expr:
        """The variable for a value that is loaded for the instance."""
        for var, known in self.loaded.items():
            if tvm_ffi.structural_equal(known, load, map_free_vars=True):
                return var
        var = tirx.Var(load.source.name, "int64")
        self.loaded[var] = load
        return var

    def _extent(self, extent: Index) -> Expr:
        if not list(extent.dims()):
            return self.storage.expr(extent)
        if extent not in self.extents:
            self.extents[extent] = tirx.Var(f"extent_{len(self.extents)}", "int64")
        return self.extents[extent]

    def _expr(self, value: Value, at: Mapping[tirx.Var, Expr], token: Expr, total: Expr | None) -> Expr:
        if isinstance(value, Reduce):
            assert total is not None
            return total
        if isinstance(value, Literal):
            return tirx.const(value.number, value.of)
        if isinstance(value, OfIndex):
            return substitute(self.storage.expr(value.index), at)
        if isinstance(value, Load):
            view = self.views[value.tensor]
            if view.flat:
                return self.sources[value.tensor](self._place(view, value.indices[view.dropped :], at))
            indices = [substitute(self.storage.expr(index), at) for index in value.indices[view.dropped :]]
            by_token = view.dropped > 0 and self.rows is not None
            return self.sources[value.tensor](*([token] if by_token else []), *indices)
        assert isinstance(value, Apply)
        operands = [self._expr(operand, at, token, total) for operand in value.operands]
        if value.function == "cast":
            return operands[0].astype(value.of)
        return as_expr(FUNCTIONS[value.function](*operands))
