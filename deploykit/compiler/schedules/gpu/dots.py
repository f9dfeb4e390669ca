"""Products of 8-bit integers, four terms of a sum at a time.

The factors of a `PACKED_4X8` product lie in memory as words of four neighbouring terms: those of the left operand
because its rows are contiguous, those of the right one because it is packed in groups of four. A step of a tile loads
each word once, and adds dot products of words to the sums of four columns at a time:

    left[row] = words(...)                     one word
    right[columns] = words(...)                four words
    sums[row, columns] += dots_of_words(left[row], right[columns])

Unsigned left factors are lowered by 128, which `graph.integer_products` accounts for.
"""

from __future__ import annotations

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.operators.anchors.integer import DOT
from deploykit.compiler.schedules.gpu.tile_body import Factor, Tile
from deploykit.compiler.schedules.integer.dot import DOTS, PACKED_4X8
from deploykit.compiler.schedules.kernel.loops import Code, index_of
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, is_zero, substitute
from deploykit.compiler.tir.values import const, dtype_of

WORDS = "tirx.words"
"""An operator that gives the words of neighbouring 8-bit integers, a load of a vector. Unsigned ones are lowered by
128."""

DOTS_OF_WORDS = "tirx.dots_of_words"
"""An operator that gives the dot products, int32, of the four integers of one word with those of each of four."""

GROUP = 4

for _operator in (WORDS, DOTS_OF_WORDS):
    ir.register_op_attr(_operator, "TCallEffectKind", 1)  # pure
    ir.register_op_attr(_operator, "TScriptPrinterName", _operator.removeprefix("tirx."))


def dot_factors(stage: Stage) -> tuple[Expr, Expr] | Declined | None:
    """The loads of the left and the right factors of a `PACKED_4X8` product; None for another stage."""
    if stage.combine is None or stage.annotations.get(DOT) != PACKED_4X8:
        return None
    source = stage.combine.source
    left, right = (_load(source.a), _load(source.b)) if isinstance(source, tirx.Mul) else (None, None)
    if left is None or right is None:
        return Declined("the operands of its product are no tensors")
    return left, right


def _load(factor: Expr) -> ir.TensorLoad | None:
    """The load of a factor, if `words` of it are the factors."""
    loads = collect(factor, ir.TensorLoad)
    if len(loads) != 1:
        return None
    wide = loads[0].astype("int32") + DOTS[PACKED_4X8].offset(dtype_of(loads[0]))
    return loads[0] if is_zero(sym.Analyzer().simplify(factor - wide)) else None


def add_dots(tile: Tile, sums: Buffer, index: Expr | None) -> tirx.Stmt:
    """Add the four terms of iteration `index` of the innermost reduced loop to each sum."""
    tiling, code = tile.tiling, Code()
    left, right = tiling.factors
    lanes = tiling.lanes
    lefts = [code.let("left", _words(tile, left, row, 0, index, 1)) for row in range(tile.rows if left.by_row else 1)]
    rights = [code.let("right", _words(tile, right, 0, vector, index, lanes)) for vector in range(tile.vectors)]
    for row in range(tile.rows):
        for vector in range(tile.vectors):
            place = tirx.Ramp(const(row * tiling.width + vector * lanes), const(1), lanes)
            operands = lefts[row if left.by_row else 0], rights[vector]
            terms = tirx.call_intrin(f"int32x{lanes}", DOTS_OF_WORDS, *operands)
            code.add(tirx.BufferStore(sums, tirx.BufferLoad(sums, [place]) + terms, [place]))
    return code.statement()


def _words(tile: Tile, factor: Factor, row: int, vector: int, index: Expr | None, count: int) -> Expr:
    """The words of a factor for an element of the tile, and for those behind it."""
    tiling = tile.tiling
    first = tiling.views.value(tile.at(factor.value, row, vector, const(0)))
    if index is not None:
        inner = tiling.reduce[-1]
        first = substitute(first, {inner.var: index_of(inner, index * GROUP)})
    assert isinstance(first, ir.TensorLoad)
    (place,) = first.indices
    whole = tirx.BufferLoad(first.source, [tirx.Ramp(place, const(1), count * GROUP)])
    return tirx.call_intrin("uint32" if count == 1 else f"uint32x{count}", WORDS, whole)
