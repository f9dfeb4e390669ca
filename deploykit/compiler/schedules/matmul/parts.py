"""A matrix product, and the parts of it that loops run over: units of work, and strips of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm import ir

from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.schedules.matmul.ends import Ends
from deploykit.compiler.schedules.matmul.tile import Tile
from deploykit.compiler.tir.rewriting import Buffer, Expr


@dataclass(frozen=True)
class Product:
    """One product: loops over `batch`, then `rows` x `columns` results. Each result is a sum over `depth` of `left`
    times `right`. `right` is an element of the packed `panels`, or an expression over the axes if there are none.
    `ends` are those of the depth. `turned`: consecutive elements of the right operand are steps, not columns;
    `contiguous`: those of the left operand are steps, too. `starts` are numbers that the operands' indices contain,
    looked up once for each unit of work."""

    batch: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    depth: Axis
    left: Expr
    right: Expr
    panels: Buffer | None
    width: int
    ends: Ends | None
    turned: bool
    contiguous: bool
    starts: Mapping[ir.Var, ir.TensorLoad]


@dataclass(frozen=True)
class Unit:
    """A unit of work: the values of the batch loops, its first row and panel, and its numbers of rows and panels."""

    batch: dict[ir.Var, Expr]
    row: Expr
    rows: Expr
    panel: Expr
    panels: Expr


@dataclass(frozen=True)
class Strip:
    """A tile's rows for a chunk of the depth: the values of the batch loops, the tile's first row, the last row and the
    number of rows of the unit of work, and the chunk with its first step and number of steps. All rows have the first
    `whole` steps. `complete`: whether it is the last chunk of the rows. `base` is the first panel that is packed.
    `direct`: the right operand is read in place."""

    tile: Tile
    batch: dict[ir.Var, Expr]
    row: Expr
    last: Expr
    rows: Expr
    chunk: Expr
    first: Expr
    steps: Expr
    whole: Expr
    complete: Expr
    base: Expr
    direct: bool
