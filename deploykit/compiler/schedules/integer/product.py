"""Matrix products and convolutions of narrow factors as loops over rows, columns and terms, which all rules for them
share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.decisions import Declined
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.anchors.integer import DOT, GROUPS
from deploykit.compiler.schedules.integer.dot import DOTS, Dot
from deploykit.compiler.schedules.kernel.access import Views, analyse, fuse, pinned, static_stride, values_of
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.loops import index_of, loop, unravel
from deploykit.compiler.schedules.kernel.stages import Axis, Stage, analyzer
from deploykit.compiler.tir.rewriting import Expr, Node, collect, is_zero, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static


@dataclass(frozen=True)
class Product:
    """Loops over `batch`, then `rows` x `columns` sums of `depth` terms. `left` is the left factor over the stage's
    axes. `taps` are the reduced axes except the last one, `channel`. `values` give the stage's axes in terms of `batch`
    and `rows`; `coordinates` are the axes that `rows` stands for, outermost first. `contiguous`: the factors of
    neighbouring channels are contiguous; `adjacent`: those of neighbouring taps are, too."""

    batch: tuple[Axis, ...]
    rows: Axis
    coordinates: tuple[Axis, ...]
    columns: Axis
    taps: tuple[Axis, ...]
    channel: Axis
    left: Expr
    right: ir.TensorLoad
    finish: Finish
    values: dict[ir.Var, Expr]
    dot: Dot
    contiguous: bool
    adjacent: bool

    @property
    def depth(self) -> Expr:
        return prod(axis.static or 1 for axis in self.taps) * as_index(self.channel.extent)

    @property
    def sums(self) -> str:
        """The dtype of sums."""
        return dtype_of(self.finish.own)

    @property
    def width(self) -> int:
        return int(self.right.source.shape[-2])


def product_of(stage: Stage, views: Views) -> Product | Declined:
    """The loops of a stage with one of the anchors, or the reason why its sums have another form."""
    stage = _by_group(stage)
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul):
        return Declined("its sum is not one of products")
    finish = finish_of(stage, views)
    axes = (*stage.axes, *stage.reduce)
    is_conv = str(stage.annotations[ANCHOR]).endswith("_conv")
    dot = DOTS[str(stage.annotations[DOT])]
    (right,) = collect(combine.source.b, ir.TensorLoad)
    (left,) = collect(combine.source.a, ir.TensorLoad)
    followed: list[Expr | tirx.BufferStore]
    followed = [finish.plain, combine.source.b] if is_conv else [finish.plain, combine.source]
    found = analyse(followed, axes)
    fused = fuse(axes, found, pinned(followed, axes), range(len(stage.axes) - 1))
    shared = analyse([right], axes)[0]
    if fused and is_zero(shared.strides[fused[-1].inner]):
        group = fused[-1]
        fused = fused[:-1]
        members = {var for var, _ in group.values}
        coordinates = tuple(axis for axis in stage.axes if axis.var in members)
        rows = group.axis
        values = values_of([*fused, group], stage.axes[:-1])
    else:
        rows, coordinates = Axis(ir.Var("row", "int64"), const(1)), ()
        values = values_of(fused, stage.axes[:-1])
    loads_bits = dot.left == "uint16"  # the term widens the bits of bfloat16, and such a dot takes them as they are
    return Product(
        tuple(loop_.axis for loop_ in fused),
        rows,
        coordinates,
        stage.axes[-1],
        stage.reduce[:-1],
        stage.reduce[-1],
        left if loads_bits else combine.source.a,
        right,
        finish,
        values,
        dot,
        *_neighbours(left, stage, axes),
    )


def copied_taps(
    product: Product, first: Expr, count: int, copied_run: Callable[[dict[ir.Var, Expr], Expr, Expr], tirx.Stmt]
) -> tirx.Stmt:
    """Copy all channels of `count` taps from `first` on. Contiguous taps are copied together: `copied_run` gets the
    values of the taps' axes, the number of neighbouring left factors, and their place among those that are copied."""
    sizes = [axis.static or 1 for axis in product.taps]
    together = sizes[-1] if product.adjacent and count % sizes[-1] == 0 else 1
    length = together * as_index(product.channel.extent)

    def taps(t: Expr) -> tirx.Stmt:
        places = unravel(first + t * together, [const(0), *map(const, sizes[1:])])
        at = {axis.var: index_of(axis, tap) for axis, tap in zip(product.taps, places, strict=True)}
        return copied_run(at, length, t * length)

    return loop("t", count // together, taps)


def _by_group(stage: Stage) -> Stage:
    """The stage of a convolution in groups, with the columns of a group as its last axis and the groups as its first
    one."""
    count = int(stage.annotations.get(GROUPS, 1))
    *outer, columns = stage.axes
    if count == 1 or columns.static is None:
        return stage
    dtype = dtype_of(columns.var)
    sizes = {"group": count, columns.var.name: columns.static // count}
    group, own = (Axis(ir.Var(name, dtype), tirx.IntImm(dtype, size)) for name, size in sizes.items())
    known = analyzer((group, *outer, own, *stage.reduce))
    column = known.simplify(group.var * own.extent + own.var)

    def split(node: Node) -> Node:
        """`node` with both axes in place of the columns, and the quotients and remainders of places among them."""
        placed = substitute(node, {columns.var: column})
        result: Node = tvm_ffi.structural_map(placed, ((prim.FloorDiv, prim.FloorMod), known.simplify))
        return result

    epilogue = None if stage.epilogue is None else split(stage.epilogue)
    return replace(stage, axes=(group, *outer, own), body=split(stage.body), epilogue=epilogue)


def _neighbours(left: ir.TensorLoad, stage: Stage, axes: Sequence[Axis]) -> tuple[bool, bool]:
    """Whether neighbouring channels, and whether neighbouring taps, are contiguous."""
    strides = analyse([left], axes)[0].strides
    contiguous = static_stride(strides[-1]) == 1
    tap = strides[-2] if len(stage.reduce) > 1 else None
    return contiguous, contiguous and tap is not None and static(tap) == stage.reduce[-1].static
