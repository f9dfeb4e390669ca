"""Tables of signal processing: HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix.

A window is a sum of cosines of the position within the period. The period is the size, or one less for a symmetric
window.
The mel matrix is computed in float64. (Source: the ONNX operators of these names, opset 17.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, store
from deploykit.compiler.operators.building.expressions import compute, double
from deploykit.compiler.operators.building.integers import expr, floor_div, maximum
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value

HANN = (0.5, -0.5)
HAMMING = (25 / 46, -21 / 46)
BLACKMAN = (0.42, -0.5, 0.08)
"""The factors of the cosines of 0, 1 and 2 turns."""


def cosine_window(ctx: Context, size: Value, factors: Sequence[float], dtype: str, *, periodic: bool = True) -> Value:
    """A window `[size]`: the sum of the cosines of 0, 1, ... turns over the window, times `factors`. `size` is an
    integer scalar."""
    count = only_integer(ctx, size, minimum=0, hint="window_size")
    period = maximum(count if periodic else count - 1, 1)
    wide = "float64" if dtype == "float64" else "float32"

    def element(position: ir.Expr) -> ir.Expr:
        turn = tirx.Cast(wide, position) * (tirx.const(2 * math.pi, wide) / tirx.Cast(wide, expr(period)))
        total = tirx.const(0, wide)
        for turns, factor in enumerate(factors):
            term = tirx.const(factor, wide)
            total = total + (term * tirx.cos(turn * tirx.const(turns, wide)) if turns else term)
        return store(total, dtype)

    return ctx.kernel("window", lambda: compute((count,), element, name="window"), dtype=dtype)


def mel_weight_matrix(
    ctx: Context, bins: Value, length: Value, rate: Value, lower: Value, upper: Value, dtype: str
) -> Value:
    """The weight of each frequency of a Fourier transform in each of `bins` bands, `[length // 2 + 1, bins]`. The
    transform has `length` points, of `rate` samples per second. The bands are triangles, with edges at equal steps of
    mel from the frequency `lower` to `upper`, in hertz. All operands are scalars."""
    bands = only_integer(ctx, bins, minimum=0, hint="num_mel_bins")
    points = only_integer(ctx, length, minimum=0, hint="dft_length")
    samples_per_second = only_integer(ctx, rate, minimum=1, hint="sample_rate")

    def build(low: te.Tensor, high: te.Tensor) -> te.Tensor:
        def mel(edge: te.Tensor) -> ir.Expr:
            return double(2595 / math.log(10)) * tirx.log1p(double(edge()) / double(700))

        step = (mel(high) - mel(low)) / double(expr(bands + 2))

        def edge(number: ir.Expr) -> ir.Expr:
            """The bin of the spectrogram that contains a band edge."""
            hertz = double(700) * (
                tirx.exp((mel(low) + double(number) * step) * double(math.log(10) / 2595)) - double(1)
            )
            position = double(expr(points + 1)) * hertz / double(expr(samples_per_second))
            return tirx.Cast("int64", tirx.floor(position))

        def element(frequency: ir.Expr, band: ir.Expr) -> ir.Expr:
            weight = _triangle(frequency, *(edge(band + k) for k in range(3)))
            return store(tirx.Cast(compute_dtype(dtype), weight), dtype)

        return compute((floor_div(points, 2) + 1, bands), element, name="mel")

    edges = [ctx.reshape(edge, ()) for edge in (lower, upper)]
    return ctx.kernel("mel_weight_matrix", build, *edges, dtype=dtype)


def _triangle(at: ir.Expr, left: ir.Expr, center: ir.Expr, right: ir.Expr) -> ir.Expr:
    """A function that rises from 0 at `left` to 1 at `center` and falls to 0 at `right`."""
    rising = double(at - left) / double(tirx.max(center - left, 1))
    peak = tirx.Select(left == center, double(1), rising)
    up = tirx.Select(tirx.all(left <= at, at <= center), peak, double(0))
    falling = double(right - at) / double(tirx.max(right - center, 1))
    return tirx.Select(tirx.all(center <= at, at < right), falling, up)
