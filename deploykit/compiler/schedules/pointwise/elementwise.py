"""Elementwise kernels: one pass over the output, whole vectors first.

The rule takes a pointwise stage. Up to `MOST_GUARDS` conditions on the position (pads, concatenations) are moved out of
the loops. A condition on an outer axis becomes an `if` around the loops inside of it; one on the innermost axis cuts
that loop into up to three. Then neighbouring axes are fused if every access is contiguous across them, so a kernel
whose operands all have the output's shape becomes a single loop. The innermost loop runs in whole vectors, then over
the remaining elements one by one. It stays scalar if an operand is read with a stride, through another index tensor or
under a condition, where vectors would be gathered lane by lane. The outermost loop is parallel; a single long loop is
cut into blocks for that.

It declines stages that are not pointwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.access import Access, Fused, Views, analyse, fuse, pinned, values_of
from deploykit.compiler.schedules.kernel.guards import assume, guards_of, interval, last_axis
from deploykit.compiler.schedules.kernel.loops import Code, index_of, loop, main_and_tail, nested, without_units
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Expr, call_name, collect, sequence, substitute
from deploykit.compiler.tir.values import bits_of, const, dtype_of, static

BLOCK = 4096
"""The number of elements of one unit of parallel work."""

MOST_GUARDS = 8
"""The most conditions of one element that are moved out of its loops."""

MOST_PARTS = 32
"""Once a stage is cut into this many parts, further conditions stay in its loops: each cut may triple the parts."""


def elementwise(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not elementwise."""
    if stage.store is None or stage.reduce:
        return Declined("it is not elementwise")
    axes, units = without_units(stage.axes)
    return [_Emitter(views, device).region(substitute(stage.store, units), axes, MOST_GUARDS, device.parallel)]


class _Emitter:
    """Emits the loops of one stage."""

    def __init__(self, views: Views, device: Device) -> None:
        self.views = views
        self.device = device
        self.parts = 0

    def region(self, store: tirx.BufferStore, axes: Sequence[Axis], budget: int, parallel: bool) -> tirx.Stmt:
        """`store` over all of `axes`, with up to `budget` guards moved out of the loops."""
        guards = guards_of(store.value, axes) if budget and axes and self.parts < MOST_PARTS else []
        for guard in sorted(guards, key=lambda guard: last_axis(guard, axes)):
            at = last_axis(guard, axes)
            if at == len(axes) - 1:
                span = interval(guard, axes[at])
                if span is None:
                    continue
                pieces = self.pieces(store, axes[at], guard, span, budget - 1)
                return nested(axes[:-1], pieces, parallel)
            inner = axes[at + 1 :]
            then, other = (self.region(assume(store, guard, h), inner, budget - 1, False) for h in (True, False))
            return nested(axes[: at + 1], tirx.IfThenElse(guard, then, other), parallel)
        return self.loops(store, axes, parallel)

    def pieces(
        self, store: tirx.BufferStore, axis: Axis, guard: Expr, span: tuple[Expr, Expr], budget: int
    ) -> tirx.Stmt:
        """`store` over one axis, cut where `guard` begins to hold and where it ends to hold."""
        code = Code()
        first, stop = code.let("first", span[0]), code.let("stop", span[1])
        cuts = [(const(0), first, False), (first, stop - first, True), (stop, axis.extent - stop, False)]
        for start, length, holds in cuts:
            if static(length) != 0:
                piece = Axis(ir.Var(axis.var.name, dtype_of(axis.var)), length)
                moved = substitute(assume(store, guard, holds), {axis.var: piece.var + start})
                code.add(self.region(moved, [piece], budget, False))
        return code.statement()

    def loops(self, store: tirx.BufferStore, axes: Sequence[Axis], parallel: bool) -> tirx.Stmt:
        """`store` over all of `axes`, in fused loops and vectors."""
        self.parts += 1
        found = analyse([store], axes)
        fused = fuse(axes, found, pinned([store.value], axes))
        assign = substitute(self.views.store(store), values_of(fused, axes))
        if not fused:
            return assign
        lanes = _lanes(store, fused[-1], found, self.device)
        inner = fused[-1].axis

        def at(index: Expr) -> tirx.Stmt:
            return substitute(assign, {inner.var: index_of(inner, index)})

        if len(fused) > 1:
            body = sequence(main_and_tail(inner.var.name, inner.extent, lanes, at))
            return nested([axis.axis for axis in fused[:-1]], body, parallel)
        count = static(inner.extent)
        if not parallel or (count is not None and count <= BLOCK):
            return sequence(main_and_tail(inner.var.name, inner.extent, lanes, at))

        def block(index: Expr) -> tirx.Stmt:
            start = index * BLOCK
            length = tirx.min(const(BLOCK), inner.extent - start)
            return sequence(main_and_tail(inner.var.name, length, lanes, lambda i: at(start + i)))

        blocks = tirx.floordiv(inner.extent + (BLOCK - 1), const(BLOCK))
        return loop("block", blocks, block, tirx.ForKind.PARALLEL)


def _lanes(store: tirx.BufferStore, inner: Fused, found: Sequence[Access], device: Device) -> int:
    if not all(access.contiguous(inner.inner) for access in found) or guarded(store.value):
        return 1
    moving = [access for access in found if static(access.strides[inner.inner] or const(0)) != 0]
    widest = max(bits_of(dtype_of(access.buffer)) for access in moving)
    return device.lanes(widest)


def guarded(value: Expr) -> bool:
    """Whether `value` has loads that are only valid under a condition, or calls without a vector form."""
    return any(not _has_vectors(call) for call in collect(value, ir.Call))


def _has_vectors(call: ir.Call) -> bool:
    """Whether the code generator has a vector form of a call, in some cases only for the dtypes that it expands."""
    name = call_name(call)
    return name in VECTOR_CALLS or (name in ("erf", "log1p") and dtype_of(call) in ("float32", "float16"))


VECTOR_CALLS = frozenset(
    (
        *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "pow", "sin", "cos"),
        *(
            "fabs",
            "floor",
            "ceil",
            "round",
            "trunc",
            "nearbyint",
            "isnan",
            "likely",
            "reinterpret",
            "maximum",
            "minimum",
        ),
    )
)
"""The calls that have a vector form in the code generator."""
