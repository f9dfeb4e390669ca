"""Elementwise kernels: one pass over the output, whole vectors first.

Takes a pointwise stage. Neighbouring axes are fused where every access moves through them contiguously, so a kernel
whose operands all have the output's shape becomes a single loop. The innermost loop runs in whole vectors without
any condition, then over the remaining elements one by one; it stays scalar when an operand is read with a stride,
through another index tensor or under a condition, where vectors would be gathered lane by lane. Outer loops are
marked parallel; a single long loop is cut into blocks for that.

Declines stages that are not pointwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Access, Fused, Views, analyse, fuse, pinned, values_of
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.loops import bits_of, const, dtype_of, loop, main_and_tail, nested, static
from deploykit.compiler.schedules.nest import Expr, Stage, collect, sequence, substitute

BLOCK = 4096
"""Elements of one unit of parallel work."""


def elementwise(stage: Stage, views: Views, device: Device) -> list[Any] | str:
    """Statements that compute `stage`, or why it is not an elementwise one."""
    store = stage.store
    if store is None or not stage.pointwise:
        return "not pointwise"
    found = analyse([store], stage.axes)
    fused = fuse(stage.axes, found, pinned([store.value], stage.axes))
    assign = substitute(views.store(store), values_of(fused, stage.axes))
    if not fused:
        return [assign]
    lanes = _lanes(store, fused[-1], found, device)
    return [_loops(assign, fused, lanes, device)]


def _loops(assign: Any, fused: Sequence[Fused], lanes: int, device: Device) -> Any:
    inner = fused[-1].axis

    def at(index: Expr) -> Any:
        exact = index if dtype_of(inner.var) == "int64" else index.astype(dtype_of(inner.var))
        return substitute(assign, {inner.var: exact})

    if len(fused) > 1:
        body = sequence(main_and_tail(inner.var.name, inner.extent, lanes, at))
        return nested([axis.axis for axis in fused[:-1]], body, device.parallel)
    count = static(inner.extent)
    if not device.parallel or (count is not None and count <= BLOCK):
        return sequence(main_and_tail(inner.var.name, inner.extent, lanes, at))

    def block(index: Expr) -> Any:
        start = index * BLOCK
        length = tirx.min(const(BLOCK), inner.extent - start)
        return sequence(main_and_tail(inner.var.name, length, lanes, lambda i: at(start + i)))

    blocks = tirx.floordiv(inner.extent + (BLOCK - 1), const(BLOCK))
    return loop("block", blocks, block, tirx.ForKind.PARALLEL)


def _lanes(store: Any, inner: Fused, found: Sequence[Access], device: Device) -> int:
    if not all(access.contiguous(inner.inner) for access in found) or guarded(store.value):
        return 1
    widest = max(bits_of(dtype_of(access.buffer)) for access in found)
    return device.lanes(widest)


def guarded(value: Expr) -> bool:
    """Whether `value` has loads that are only valid under a condition, or calls without a vector form."""
    return any(getattr(call.op, "name", "") not in VECTOR_CALLS for call in collect(value, ir.Call))


_VECTOR_CALLS = (
    *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "pow", "sin", "cos"),
    *("fabs", "floor", "ceil", "round", "trunc", "nearbyint", "isnan", "likely", "reinterpret"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"),
)
VECTOR_CALLS = frozenset(f"tirx.{name}" for name in _VECTOR_CALLS)
"""Calls that the code generator applies to whole vectors."""
