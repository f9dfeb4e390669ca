"""Matrix products: MatMul, Gemm.

Every product is a `relax.matmul`. float16 and bfloat16 are accumulated in float32. The scales and the addend of Gemm
are one kernel, which a later stage fuses into the product. A product of dequantised operands is an integer one if
possible (`dequantized`). Batch sizes whose broadcast cannot be proved are expanded first.
(Source: ONNX operators MatMul, Gemm.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, relax, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.broadcast import broadcast_shapes, broadcasts_to, elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import equal
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.elementwise import factor, like
from deploykit.compiler.operators.joining import repeated
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.quantized.dequantized import added, quantized_matmul


def matrix_product(ctx: Context, a: Value, b: Value) -> Value:
    """`matmul`. If both operands were dequantised, it is an integer product if possible."""
    exact = quantized_matmul(ctx, a, b)
    return matmul(ctx, a, b) if exact is None else exact


def gemm(
    ctx: Context,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """`alpha * a @ b + beta * c` of matrices; `a` and `b` are transposed first if asked for, and `c` broadcasts to the
    product. If both matrices were dequantised, it is an integer product if possible.

    Raises `Unsupported` if `a` or `b` is not a matrix."""
    if a.rank != 2 or b.rank != 2:
        raise Unsupported(f"operands of rank {a.rank} and {b.rank}; both must be matrices")
    dtype = a.dtype
    if transpose_a:
        a = transpose(ctx, a, [1, 0])
    if transpose_b:
        b = transpose(ctx, b, [1, 0])
    exact = quantized_matmul(ctx, a, b)
    product = wide_matmul(ctx, a, b) if exact is None else exact
    if c is not None and alpha == beta == 1.0 and (whole := added(ctx, product, c)) is not None:
        return whole
    if c is not None and beta != 0.0:
        ctx.require(broadcasts_to(c.shape, product.shape), "the addend of Gemm does not broadcast to the product")
        return elementwise(ctx, "gemm", lambda x, y: _combined(x, y, alpha, beta), product, c, dtype=dtype)
    if alpha != 1.0:
        return elementwise(ctx, "gemm", lambda x: _combined(x, None, alpha, beta), product, dtype=dtype)
    return ctx.cast(product, dtype)


def matmul(ctx: Context, a: Value, b: Value) -> Value:
    """numpy.matmul of two values of one dtype, in that dtype."""
    return ctx.cast(wide_matmul(ctx, a, b), a.dtype)


def wide_matmul(ctx: Context, a: Value, b: Value) -> Value:
    """numpy.matmul of two values of one dtype. The result is in the dtype of sums: float32 for narrower floats."""
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
    """`x`, or a copy with the full batch if one of its batch sizes may or may not be 1 at run time."""
    own = x.shape[:-2]
    target = batch[len(batch) - len(own) :]
    if all((isinstance(n, int) and n == 1) or ctx.equal(n, m) for n, m in zip(own, target, strict=True)):
        return x
    return repeated(ctx, x, (*target, *x.shape[-2:]))


def _combined(x: ir.Expr, y: ir.Expr | None, alpha: float, beta: float) -> ir.Expr:
    """`alpha * x + beta * y`; a `beta` of 0 leaves `y` out. With fractional scales, integers are combined in float64
    and truncated."""
    dtype = str(x.ty.dtype)
    if not dtype.startswith("float") and not (alpha.is_integer() and beta.is_integer()):
        wide = [v if v is None else tirx.Cast("float64", v) for v in (x, y)]
        return tirx.Cast(dtype, _combined(wide[0], wide[1], alpha, beta))
    scaled = x if alpha == 1.0 else x * factor(x, alpha)
    if y is None or beta == 0.0:
        return scaled
    return scaled + (y if beta == 1.0 else y * like(y, beta))
