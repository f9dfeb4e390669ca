"""Exact products of integers with zero points, in int32.

    sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + K za zb

The first sum is an integer product (`compiler.graph.integer_products`), whose right operand is int8. If it is uint8,
128 is subtracted from it and from its zero point. A constant right operand is taken minus its zero point if the
difference still fits int8, so that the last two terms vanish. If `za` is constant, too, its contribution is a constant
per column. Sums of operands that are computed at run time are kernels of their own.

The left operand has 8 bits, or is int16 if the right one is constant, and so small that no sum leaves int32.

The padding of a convolution is the zero point of the data. Operands of other dtypes are declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, relax, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building import integer_calls
from deploykit.compiler.operators.building.broadcast import broadcast_shapes, elementwise
from deploykit.compiler.operators.building.channels import last_of
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.integers import equal, is_plain
from deploykit.compiler.operators.building.moved import first_of
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import Windows


@dataclass(frozen=True)
class Operand:
    """Integers `x`, with a zero point that broadcasts to `x`; for filters it has the shape (O, 1, ...)."""

    x: Value
    zero: Value | None = None


@dataclass(frozen=True)
class Product:
    """A sum of products: `total` minus the constant `surplus`, which broadcasts to it."""

    total: Value
    surplus: np.ndarray | None = None

    def value(self, ctx: Context) -> Value:
        """The sum as one value."""
        if self.surplus is None:
            return self.total
        return elementwise(ctx, "less", lambda t, k: t - k, self.total, ctx.constant(self.surplus))


def _is_8_bit(*values: Value | None) -> bool:
    return all(v is None or v.dtype in ("int8", "uint8") for v in values)


def _fit(left: Operand, right: Operand, axes: tuple[int, ...]) -> bool:
    """Whether the sums of products, over these axes of the right operand, are exact in int32."""
    if not _is_8_bit(right.x, right.zero):
        return False
    if _is_8_bit(left.x, left.zero):
        return True
    known, zero = right.x.array, None if right.zero is None else right.zero.array
    if left.x.dtype != "int16" or known is None or (right.zero is not None and zero is None):
        return False
    if left.zero is not None and (left.zero.array is None or left.zero.dtype != "int16"):
        return False
    factors = known.astype(np.int64) - (0 if zero is None else zero.astype(np.int64))
    narrow = factors.min(initial=0) >= -128 and factors.max(initial=0) <= 127
    return bool(narrow) and int(np.abs(factors).sum(axis=axes).max(initial=0)) * 2**15 < 2**31


def exact_matmul(ctx: Context, a: Operand, b: Operand) -> Product | None:
    """numpy.matmul in int32 of `a` minus its zero point (one in all, or one per row) and `b` minus its zero point (one
    in all, or one per column). `None` if that is not an integer product."""
    if min(a.x.rank, b.x.rank) < 2 or not _by_column(b.zero) or not _fit(a, b, (-2,)):
        return None
    if a.zero is not None and not (_is_one(a.zero) or (is_plain(a.zero.shape[-1]) and a.zero.shape[-1] == 1)):
        return None
    depths = a.x.shape[-1], b.x.shape[-2]
    ctx.require(equal(*depths), "the matrices' inner sizes {} and {} differ", *depths)
    batch = broadcast_shapes(ctx, a.x.shape[:-2], b.x.shape[:-2])
    for x in (a.x, b.x):
        if not all(_same(ctx, n, m) for n, m in zip(x.shape[:-2][::-1], batch[::-1], strict=False)):
            return None
    right, zero = _signed(ctx, b)
    shape = (*batch, a.x.shape[-2], b.x.shape[-1])
    call = integer_calls.matmul(ctx.tensor(a.x), ctx.tensor(right), relax.TensorType(shape, "int32"))
    product = Product(ctx.bind(call, "int32", shape))
    if a.zero is not None and not _is_zero(a.zero):
        product = _less(ctx, product.total, a.zero, _sums(ctx, right, -2))
    if zero is None:
        return product
    product = _less(ctx, product.value(ctx), zero, _sums(ctx, a.x, -1))
    if a.zero is None or _is_zero(a.zero):
        return product
    depth = ctx.known(np.asarray(depths[0], dtype=object), "int64")

    def both(t: ir.Expr, za: ir.Expr, zb: ir.Expr, k: ir.Expr) -> ir.Expr:
        return t + tirx.Cast("int32", k) * (tirx.Cast("int32", za) * tirx.Cast("int32", zb))

    return Product(elementwise(ctx, "both_zeros", both, product.value(ctx), a.zero, zero, depth))


def exact_conv(ctx: Context, x: Operand, w: Operand, shape: Windows, groups: int) -> Product | None:
    """The convolution in int32 of `x` (N, C, ...) minus its zero point, a scalar, with the constant filters `w` (O, C /
    groups, ...) minus theirs. `None` if that is not an integer product."""
    if w.x.array is None or (x.zero is not None and not _is_one(x.zero)):
        return None
    if not _fit(x, w, tuple(range(1, w.x.rank))):
        return None
    pads = [*shape.before, *shape.after]
    whole = len(w.x.array) % groups == 0
    if not whole or not 1 <= x.x.rank - 2 <= 3 or not all(is_plain(p) and p >= 0 for p in pads):
        return None
    channels = w.x.shape[1] * groups
    ctx.require(equal(x.x.shape[1], channels), "the data has {} channels, the weights fit {}", x.x.shape[1], channels)
    filters, zero = _signed(ctx, w)
    if zero is not None or filters.array is None:
        return None
    geometry = integer_calls.Geometry(
        shape.strides,
        shape.dilations,
        tuple(int(p) for p in shape.before),
        tuple(int(p) for p in shape.after),
        groups,
    )
    nothing = ctx.constant(np.zeros((), x.x.dtype)) if x.zero is None else x.zero
    result = (x.x.shape[0], *shape.counts, w.x.shape[0])
    call = integer_calls.conv(
        ctx.tensor(last_of(ctx, x.x)),
        relax.const(np.ascontiguousarray(np.moveaxis(filters.array, 1, -1)), "int8"),
        ctx.tensor(nothing),
        geometry,
        relax.TensorType(result, "int32"),
    )
    total = first_of(ctx.bind(call, "int32", result))
    if x.zero is None or _is_zero(x.zero):
        return Product(total)
    sums = filters.array.reshape(filters.array.shape[0], -1).sum(axis=1, dtype=np.int32)
    return _less(ctx, total, x.zero, ctx.constant(sums.reshape(-1, *[1] * (x.x.rank - 2))))


def _less(ctx: Context, total: Value, zero: Value, sums: Value) -> Product:
    """`total - zero * sums`."""
    if zero.array is not None and sums.array is not None:
        return Product(total, zero.array.astype(np.int32) * sums.array)
    return Product(elementwise(ctx, "less", lambda t, z, s: t - tirx.Cast("int32", z) * s, total, zero, sums))


def _signed(ctx: Context, b: Operand) -> tuple[Value, Value | None]:
    """The right operand as int8, and its zero point (int32) if it still has to be subtracted."""
    array = b.x.array
    zero = np.zeros((), np.int32) if b.zero is None else b.zero.array
    if array is not None and zero is not None:
        shifted = array.astype(np.int32) - zero.astype(np.int32)
        if shifted.min(initial=0) >= -128 and shifted.max(initial=0) <= 127:
            return ctx.constant(shifted.astype(np.int8)), None
    offset = 128 if b.x.dtype == "uint8" else 0
    if array is not None:
        x = ctx.constant((array.astype(np.int32) - offset).astype(np.int8))
    elif offset:
        x = elementwise(ctx, "signed", lambda v: tirx.Cast("int8", tirx.Cast("int32", v) - offset), b.x, dtype="int8")
    else:
        x = b.x
    if b.zero is None:
        return x, ctx.constant(np.int32(-offset)) if offset else None
    if zero is not None:
        rest = zero.astype(np.int32) - offset
        return x, ctx.constant(rest) if rest.any() else None
    return x, elementwise(ctx, "zero", lambda z: tirx.Cast("int32", z) - offset, b.zero, dtype="int32")


def _sums(ctx: Context, x: Value, axis: int) -> Value:
    """The sums along the last axis or the last but one; the axis stays with size 1."""
    if x.array is not None:
        return ctx.constant(x.array.sum(axis=axis, dtype=np.int32, keepdims=True))
    at = x.rank + axis
    shape: list[IntExpr] = [1 if i == at else n for i, n in enumerate(x.shape)]

    def build(t: te.Tensor) -> te.Tensor:
        k = reduce_axis(x.shape[at], name="k")

        def element(*index: ir.Expr) -> ir.Expr:
            return te.sum(t(*[k if i == at else v for i, v in enumerate(index)]).astype("int32"), axis=k)

        return compute(shape, element, name="sums")

    return ctx.kernel("sums", build, x, dtype="int32")


def _same(ctx: Context, size: IntExpr, wanted: IntExpr) -> bool:
    return (is_plain(size) and size == 1) or ctx.equal(size, wanted)


def _by_column(zero: Value | None) -> bool:
    return zero is None or _is_one(zero) or zero.rank == 1 or _ones(zero.shape[:-1])


def _is_one(value: Value) -> bool:
    return _ones(value.shape)


def _ones(shape: Sequence[IntExpr]) -> bool:
    return all(is_plain(n) and n == 1 for n in shape)


def _is_zero(value: Value) -> bool:
    return value.array is not None and not value.array.any()
