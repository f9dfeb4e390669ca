"""Running totals along an axis: CumSum, CumProd.

The axis is an operand; if it is computed at run time, the loops run over data dims. `exclusive` leaves out the
element's own value; `reverse` runs from the end. Totals of float16 are kept in float32.
(Source: ONNX operators CumSum, CumProd.)
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import equal, expr, from_end, is_plain, less, select
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value

SCAN = "deploykit.scan"
"""Annotation of a kernel that computes each element from those before it along axis 1 (`forward`) or after it
(`reverse`), and from itself, at the same indices along the other axes."""


def cumulative_sum(ctx: Context, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Running sums of `x` along `axis`, an integer that may count from the end."""
    return _running(ctx, "cumsum", x, axis, 0, lambda a, b: a + b, exclusive=exclusive, reverse=reverse)


def cumulative_product(ctx: Context, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Running products of `x` along `axis`, an integer that may count from the end."""
    return _running(ctx, "cumprod", x, axis, 1, lambda a, b: a * b, exclusive=exclusive, reverse=reverse)


def _running(
    ctx: Context,
    name: str,
    x: Value,
    axis: Value,
    identity: int,
    combine: Callable[[ir.Expr, ir.Expr], ir.Expr],
    *,
    exclusive: bool,
    reverse: bool,
) -> Value:
    outer, length, inner = _around(ctx, x, axis)
    shape = (outer, length, inner)

    def scan(code: Code, source: Array, target: Array) -> None:
        with code.loop("o", outer) as o, code.loop("i", inner) as i:
            running = code.cell("running", tirx.const(identity, compute_dtype(x.dtype)))
            with code.loop("k", length) as k:
                at = (o, expr(length) - 1 - k if reverse else k, i)
                before = running.value
                if exclusive:
                    target[at] = store(before, x.dtype)
                running.value = combine(before, load(source, x.dtype, at))
                if not exclusive:
                    target[at] = store(running.value, x.dtype)

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative(
            name, [t], [(shape, storage_dtype(x.dtype))], scan, {SCAN: "reverse" if reverse else "forward"}
        )

    return ctx.reshape(ctx.kernel(name, build, ctx.reshape(x, shape), dtype=x.dtype), x.shape)


def _around(ctx: Context, x: Value, operand: Value) -> tuple[IntExpr, IntExpr, IntExpr]:
    """The number of elements before, along and after the axis."""
    if x.rank == 0:
        raise Unsupported("a scalar has no axis to run along")
    axis = ctx.simplify(from_end(only_integer(ctx, operand, minimum=-x.rank, maximum=x.rank - 1, hint="axis"), x.rank))
    if is_plain(axis) and not 0 <= axis < x.rank:
        raise Unsupported(f"axis {axis} is outside of a tensor of rank {x.rank}")

    def size(i: int, condition: bool | ir.Expr) -> IntExpr:
        return select(condition, x.shape[i], 1)

    axes = range(x.rank)
    return (
        ctx.product([size(i, less(i, axis)) for i in axes]),
        ctx.product([size(i, equal(i, axis)) for i in axes]),
        ctx.product([size(i, less(axis, i)) for i in axes]),
    )
