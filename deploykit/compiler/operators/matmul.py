"""Matrix products: MatMul, Gemm.

Every product is a `relax.matmul`. float16 and bfloat16 are accumulated in float32; the scales and the addend of Gemm
are one kernel that a later stage fuses into the product. Products of dequantised operands are integer ones where they
can be (`dequantized`). Batch sizes whose broadcast cannot be proved are expanded first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, relax, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.broadcast import broadcast_shapes, compute_dtype
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import factor, like
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.integers import equal
from deploykit.compiler.operators.joining import repeated
from deploykit.compiler.operators.value import Value


def matmul(ctx: Context, a: Value, b: Value) -> Value:
    """numpy.matmul of two values of one dtype, in that dtype."""
    return ctx.cast(wide_matmul(ctx, a, b), a.dtype)


def wide_matmul(ctx: Context, a: Value, b: Value) -> Value:
    """numpy.matmul of two values of one dtype in the dtype that sums are kept in: float32 for narrower floats."""
    if a.rank == 0 or b.rank == 0:
        raise Unsupported("a scalar operand of a matrix product")
    dtype = compute_dtype(a.dtype)
    if dtype != storage_dtype(a.dtype) and a.dtype not in ("float16", "bfloat16"):
        a, b = ctx.cast(a, dtype), ctx.cast(b, dtype)
    depths = a.shape[-1], b.shape[-2] if b.rank > 1 else b.shape[0]
    ctx.require(equal(*depths), "the matrices' inner sizes {} and {} differ", *depths)
    batch = broadcast_shapes(ctx, a.shape[:-2], b.shape[:-2])
    a, b = _expand_batch(ctx, a, batch), _expand_batch(ctx, b, batch)
    shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))
    return ctx.bind(relax.op.matmul(ctx.tensor(a), ctx.tensor(b), out_dtype=dtype), dtype, shape)


def _expand_batch(ctx: Context, x: Value, batch: Sequence[IntExpr]) -> Value:
    """`x`, or its copy of the full batch when one of its sizes may or may not be 1 at run time."""
    own = x.shape[:-2]
    target = batch[len(batch) - len(own) :]
    if all((isinstance(n, int) and n == 1) or ctx.equal(n, m) for n, m in zip(own, target, strict=True)):
        return x
    return repeated(ctx, x, (*target, *x.shape[-2:]))


def combine(x: ir.Expr, y: ir.Expr | None, alpha: float, beta: float) -> ir.Expr:
    """`alpha * x + beta * y`, of which a `beta` of 0 leaves `y` out; with fractional scales, integers are combined in
    float64 and truncated."""
    dtype = str(x.ty.dtype)
    if not dtype.startswith("float") and not (alpha.is_integer() and beta.is_integer()):
        wide = [v if v is None else tirx.Cast("float64", v) for v in (x, y)]
        return tirx.Cast(dtype, combine(wide[0], wide[1], alpha, beta))
    scaled = x if alpha == 1.0 else x * factor(x, alpha)
    if y is None or beta == 0.0:
        return scaled
    return scaled + (y if beta == 1.0 else y * like(y, beta))
