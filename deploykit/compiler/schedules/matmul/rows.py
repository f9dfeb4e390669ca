"""Steps of a tile of float32 by a function on rows (`devices.row_functions`)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.pointers import address, run
from deploykit.compiler.schedules.matmul.tile import Tile
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect
from deploykit.compiler.tir.values import const, dtype_of, static

Operand = Callable[[Expr, Expr], Expr]
"""The element that a tile multiplies: of a row and a step, or of a step and a column."""


def steps_by_rows(
    device: Device, tile: Tile, sums: Buffer, left: Operand, right: Operand, count: Expr
) -> tirx.Stmt | None:
    """`count` steps of a tile; `None` unless both operands are floats in memory, where those of neighbouring rows,
    steps and columns have the places that the function takes."""
    functions = device.row_functions
    if functions is None or not functions.takes(tile.columns) or tile.dtype != "float32":
        return None
    zero, one = const(0), const(1)
    rows = _loads(*(left(const(row), zero) for row in range(tile.rows)), left(zero, one))
    weights = _loads(right(zero, zero), right(one, zero), right(zero, one), halves=functions.halves)
    if rows is None or weights is None:
        return None
    known = sym.Analyzer()

    def apart(a: ir.TensorLoad, b: ir.TensorLoad) -> Expr:
        return known.simplify(b.indices[0] - a.indices[0])

    *rows, onward = rows
    between = [apart(a, b) for a, b in pairwise(rows)] or [zero]
    steps = (apart(rows[0], onward), *(apart(weights[0], other) for other in weights[1:]))
    if [static(step) for step in steps] != [1, tile.columns, 1]:
        return None
    if collect(between[0], ir.TensorLoad) or not all(known.can_prove_equal(b, between[0]) for b in between):
        return None
    places = [address(load.source, load.indices[0]) for load in (rows[0], weights[0])]
    width = [const(tile.columns)] if functions.whole else []
    name = functions.name("multiply_outputs_half" if _is_half(weights[0]) else "multiply_outputs")
    return run(name, sums, places[0], between[0], const(tile.rows), places[1], count, *width)


def _loads(*operands: Expr, halves: bool = False) -> list[ir.TensorLoad] | None:
    """The places of the operands, if all are float32 in memory, or with `halves` float16 that is widened."""
    sources = [each.value if halves and isinstance(each, prim.Cast) else each for each in operands]
    loads = [load for load in sources if isinstance(load, ir.TensorLoad)]
    dtypes = {"float16" if load is not operand else "float32" for load, operand in zip(loads, operands, strict=False)}
    alike = len(dtypes) == 1 and {dtype_of(load) for load in loads} == dtypes
    return loads if len(loads) == len(operands) and alike else None


def _is_half(load: ir.TensorLoad) -> bool:
    return dtype_of(load) == "float16"
