"""Elements of ragged tensors lie one after the other, without gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from tvm import ir, tirx

from deploykit.compiler.dims import evaluate
from deploykit.compiler.dims.conversion import as_expr, expression, polynomial
from deploykit.compiler.ragged.storage import Layout, Storage
from deploykit.compiler.tir.rewriting import replace_loads, substitute
from deploykit.errors import UsageError
from deploykit.ragged import Tensor, dim, lengths
from tests.compiler.ragged.nestings import Nesting, nestings


class Numbers:
    """Evaluates offsets for the lengths of a nesting."""

    def __init__(self, nesting: Nesting) -> None:
        sizes = {size for each in nesting.dims for size in each.extent.sizes()}
        self.storage = Storage({size: tirx.Var(size.name, "int64") for size in sizes})
        self.sizes = {var: nesting.sizes[size.name] for size, var in self.storage.sizes.items()}
        self.nesting = nesting
        self.arrays: dict[Any, list[int]] = {}

    def value(self, expr: ir.Expr, at: Mapping[tirx.Var, int]) -> int:
        """The value of an expression that may load lengths and sums."""
        known = {**self.sizes, **at}

        def load(found: ir.TensorLoad) -> ir.Expr:
            return as_expr(self.array(found.source)[evaluate(found.indices[0], known)])

        return evaluate(replace_loads(substitute(expr, {v: as_expr(n) for v, n in known.items()}), load), known)

    def array(self, buffer: Any) -> list[int]:
        for each, own in self.storage.lengths.items():
            if own.same_as(buffer):
                return [int(n) for n in self.nesting.entries[each.name]]
        if buffer not in self.arrays:
            (sums,) = (each for each in self.storage.arrays if each.buffer.same_as(buffer))
            element = as_expr(expression(sums.element))
            entries = [0]
            for place in self.places(sums.domain):
                entries.append(entries[-1] + self.value(element, place))
            self.arrays[buffer] = entries
        return self.arrays[buffer]

    def places(self, layout: Layout, at: Mapping[tirx.Var, int] | None = None) -> list[dict[tirx.Var, int]]:
        """All indices of a tensor in memory, in order."""
        found = [dict(at or {})]
        for var, extent in zip(layout.variables, layout.extents, strict=True):
            found = [
                {**place, var: n} for place in found for n in range(self.value(as_expr(expression(extent)), place))
            ]
        return found


@given(nesting=nestings(padded=True))
@settings(max_examples=150, deadline=None)
def test_offsets_count_the_elements(nesting: Nesting) -> None:
    numbers = Numbers(nesting)
    try:
        layout = numbers.storage.layout(tuple(nesting.dims), nesting.padding)
    except UsageError:
        return
    offset = layout.offset(layout.variables)
    places = numbers.places(layout)
    assert [numbers.value(offset, place) for place in places] == list(range(len(places)))
    assert numbers.value(layout.total.expr(), {}) == len(places)
    reference = nesting.reference
    expected = list(reference.indices(tuple(nesting.dims), nesting.padding))
    assert [tuple(place[var] for var in layout.variables) for place in places] == expected


@given(nesting=nestings(2))
@settings(max_examples=100, deadline=None)
def test_a_fused_loop_and_its_indices_are_inverse(nesting: Nesting) -> None:
    """For the loop `f` over all elements, `o` the place of the outer indices of `f`, and `i` the distance from the
    first element of `o`: `offset(o, i) == f` in normal form."""
    numbers = Numbers(nesting)
    dims = tuple(nesting.dims)
    layout = numbers.storage.layout(dims)
    f = tirx.Var("f", "int64")
    *outer, _ = layout.variables
    inner = f - layout.offset([*outer, tirx.IntImm("int64", 0)])
    assert polynomial(layout.offset([*outer, inner])) == polynomial(f)


def test_one_array_is_shared_by_all_tensors_with_its_sums() -> None:
    batch = dim("batch")
    row = dim("row", lengths("n", batch)[batch])
    (size,) = batch.extent.sizes()
    storage = Storage({size: tirx.Var("batch", "int64")})
    for rest in ((), (dim("heads", 8),), (dim("width", 64), dim("depth", 2))):
        storage.layout((batch, row, *rest))
    assert len(storage.arrays) == 1
    heads = dim("heads", 8)
    storage.layout((batch, heads, row, dim("column", row.extent)))
    assert len(storage.arrays) == 2


def test_an_index_that_may_not_exist_is_refused() -> None:
    batch = dim("batch")
    row = dim("row", lengths("n", batch)[batch])
    x = Tensor("x", (batch, row))
    x[batch, row]
    with pytest.raises(UsageError, match=r"use x.at\(..., outside=0\)"):
        x[batch, row + 1]
    with pytest.raises(UsageError, match="may be outside"):
        x[batch, 0]
    with pytest.raises(UsageError, match="of the lengths 'n' may be outside"):
        dim("after", lengths("n", batch)[batch + 1])
    with pytest.raises(UsageError, match="may be negative"):
        dim("bad", row - 1)
    with pytest.raises(UsageError, match="must come before"):
        lengths("m", row)
