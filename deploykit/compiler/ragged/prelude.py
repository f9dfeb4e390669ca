"""The prelude: kernels that compute index arrays from the lengths, once per run, for all operators of a model.

An array of sums is computed by one loop over its domain. No sum exceeds `LIMIT`: larger ones become `LIMIT`, which is
more elements than any tensor has, so the check of the total refuses the run. One element of a sum fits 64 bits because
lengths have maxima; extents for which this is not proved are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.conversion import as_expr, expression
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.sorting import merge_sort
from deploykit.compiler.ragged.loops import Loop, hoisted, nest, renamed
from deploykit.compiler.ragged.storage import Order, Owners, Storage, Sums
from deploykit.compiler.ragged.totals import LIMIT, Totals, largest_element
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import const
from deploykit.errors import UsageError
from deploykit.ragged.indices import LONGEST

LARGEST_ELEMENT = 1 << 62
"""The largest element of a sum whose addition does not overflow."""


def within(source: Buffer, target: Buffer, count: IntExpr, most: int) -> tirx.Stmt:
    """Copy lengths, each at least 0 and at most `most`."""
    index = tirx.Var("i", "int64")
    found = tirx.max(tirx.min(tirx.BufferLoad(source, [index]), const(most)), const(0))
    return nest([Loop(index, as_expr(count))], tirx.BufferStore(target, found, [index]))


def sums_body(array: Sums, operands: Sequence[Buffer], entries: Expr, total: Buffer) -> tirx.Stmt:
    """Compute an array, which has `entries` elements, and store its last entry in `total`, too."""
    last = tirx.BufferLoad(array.buffer, [as_expr(entries) - 1])
    return sequence([hoisted(loop_nest(array), operands), tirx.BufferStore(total, last, [const(0)])])


def require_exact(storage: Storage, array: Sums) -> None:
    """Raises `UsageError` if an element of the array may not fit 64 bits."""
    most = largest_element(storage, array, LONGEST)
    if most is None or most > LARGEST_ELEMENT:
        names = ", ".join(f"'{dim.name}'" for dim in array.domain.dims)
        raise UsageError(f"within an index of {names} may be too many elements to count: give the lengths a maximum")


def loop_nest(array: Sums) -> tirx.Stmt:
    """The loops that compute an array, over the buffers that stand for lengths and arrays."""
    place = tirx.decl_buffer((1,), "int64", "place", scope="local")
    running = tirx.decl_buffer((1,), "int64", "running", scope="local")
    zero = const(0)
    here, so_far = (tirx.BufferLoad(cell, [zero]) for cell in (place, running))
    element = as_expr(expression(array.element))
    step = sequence(
        [
            tirx.BufferStore(array.buffer, so_far, [here]),
            tirx.BufferStore(running, tirx.min(so_far + element, const(LIMIT)), [zero]),
            tirx.BufferStore(place, here + 1, [zero]),
        ]
    )
    extents = [as_expr(expression(extent)) for extent in array.domain.extents]
    variables = array.domain.variables
    loops, inner = renamed([Loop(var, extent) for var, extent in zip(variables, extents, strict=True)], step)
    starts = [tirx.AllocBuffer(cell) for cell in (place, running)]
    starts += [tirx.BufferStore(cell, zero, [zero]) for cell in (place, running)]
    return sequence([*starts, nest(loops, inner), tirx.BufferStore(array.buffer, so_far, [here])])


def greatest_kernel(lengths: te.Tensor) -> te.Tensor:
    """The greatest of some lengths, as a tensor of one element; 0 if there are none."""

    def scan(code: Code, given: Array, longest: Array) -> None:
        longest[0] = 0
        with code.loop("i", lengths.shape[0]) as i:
            longest[0] = tirx.max(longest[0], given[i])

    (made,) = imperative("longest", [lengths], [((1,), "int64")], scan)
    return made


def map_body(storage: Storage, made: Owners | Order, totals: Totals) -> tuple[list[Buffer], tirx.Stmt, IntExpr]:
    """The lengths and arrays that an array of a loop is computed from, the statement, and the number of entries."""
    body, entries = _owners(made, totals) if isinstance(made, Owners) else _order(storage, made, totals)
    operands = [buffer for buffer in operands_of(storage, body) if not buffer.same_as(made.buffer)]
    return operands, hoisted(body, operands), entries


def _owners(made: Owners, totals: Totals) -> tuple[tirx.Stmt, IntExpr]:
    """For each index of the outer dims, as many entries with its place as the last dim has indices."""
    places = [tirx.decl_buffer((1,), "int64", name, scope="local") for name in ("owner", "place")]
    owner, place = (tirx.BufferLoad(cell, [const(0)]) for cell in places)
    *outer, last = zip(made.layout.variables, made.layout.extents, strict=True)
    entry = sequence(
        [tirx.BufferStore(made.buffer, owner, [place]), tirx.BufferStore(places[1], place + 1, [const(0)])]
    )
    loops, inner = renamed([Loop(last[0], as_expr(expression(last[1])))], entry)
    each = sequence([nest(loops, inner), tirx.BufferStore(places[0], owner + 1, [const(0)])])
    loops, body = renamed([Loop(var, as_expr(expression(extent))) for var, extent in outer], each)
    starts = [tirx.AllocBuffer(cell) for cell in places]
    starts += [tirx.BufferStore(cell, const(0), [const(0)]) for cell in places]
    return sequence([*starts, nest(loops, body)]), totals.elements(made.layout)


def _order(storage: Storage, made: Order, totals: Totals) -> tuple[tirx.Stmt, IntExpr]:
    """The indices of a dim, sorted by a merge sort, which keeps the order of equal ones."""
    count = totals.elements(storage.layout((made.dim,)))
    weight, var = storage.expr(made.weight.extent), storage.variable(made.dim)
    code = Code()
    scratch = tirx.decl_buffer((count,), "int64", "scratch")
    code.append(tirx.AllocBuffer(scratch))

    def heavier(_: Code, a: Expr, b: Expr) -> Expr:
        return substitute(weight, {var: a}) > substitute(weight, {var: b})

    merge_sort(code, Array(code, made.buffer), Array(code, scratch), count, heavier)
    return code.statement(), count


def operands_of(storage: Storage, *nodes: object) -> list[Buffer]:
    """The lengths and arrays that expressions or statements load, in the order in which the prelude makes them."""
    used = {load.source for node in nodes for load in collect(node, ir.TensorLoad)}
    return [buffer for buffer in storage.buffers() if buffer in used]
