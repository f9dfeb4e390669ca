"""Det: the determinants of a batch of matrices, by Gaussian elimination with partial pivoting.

(Source: ONNX operator Det.)
"""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.building.sizes import require_equal
from deploykit.compiler.operators.building.value import Value


def determinant(ctx: Context, x: Value) -> Value:
    """The determinants, of shape (...), of matrices (..., n, n).

    Raises `Unsupported` for fewer than two axes, and for matrices that are provably not square."""
    if x.rank < 2:
        raise Unsupported(f"a tensor of rank {x.rank}")
    *batch, size, columns = x.shape
    require_equal(ctx, "the matrices are not square", size, columns)
    wide = compute_dtype(x.dtype)

    def write(code: Code, data: Array, result: Array, work: Array) -> None:
        with loops(code, batch) as index:
            with loops(code, (size, size)) as (i, j):
                work[i, j] = load(data, x.dtype, [*index, i, j])
            product = code.cell("product", tirx.const(1, wide))
            with code.loop("k", size) as k:
                pivot = code.cell("pivot", k)
                with code.loop("i", size - k - 1, k + 1) as i, code.when(_larger(work[i, k], work[pivot.value, k])):
                    pivot.value = i
                with code.when(pivot.value != k):
                    product.value = -product.value
                    with code.loop("j", size) as j:
                        held = code.cell("held", work[k, j])
                        work[k, j] = work[pivot.value, j]
                        work[pivot.value, j] = held.value
                product.value *= work[k, k]
                with code.when(work[k, k] != 0), code.loop("i", size - k - 1, k + 1) as i:
                    factor = code.cell("factor", work[i, k] / work[k, k])
                    with code.loop("j", size - k - 1, k + 1) as j:
                        work[i, j] = work[i, j] - factor.value * work[k, j]
            result[tuple(index)] = store(product.value, x.dtype)

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative("determinant", [t], [(batch, storage_dtype(x.dtype)), ((size, size), wide)], write)

    return ctx.kernel("determinant", build, x, dtype=(x.dtype, wide))[0]


def _larger(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return tirx.abs(a) > tirx.abs(b)
