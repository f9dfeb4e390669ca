"""Tables of signal processing: HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix.

Windows are sums of cosines of the position within the period, which is the size or, for a symmetric window, one less.
The mel matrix is computed in float64. (Source: the ONNX operators of these names, opset 17.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.operators.broadcast import compute_dtype, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import expr, floor_div, maximum
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_WINDOWS: dict[str, Sequence[float]] = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}
"""Factors of the cosines of 0, 1, 2 turns."""


@operator(*_WINDOWS)
def window(ctx: Context, node: Node, size: Value) -> Value:
    count = ctx.ints(size, minimum=0, hint="window_size")[0]
    period = count if node.int("periodic", 1) else maximum(count - 1, 1)
    dtype = node.dtype("output_datatype", "float32")
    wide = "float64" if dtype == "float64" else "float32"

    def element(position: ir.Expr) -> ir.Expr:
        turn = tirx.Cast(wide, position) * (tirx.const(2 * math.pi, wide) / tirx.Cast(wide, expr(period)))
        total = tirx.const(0, wide)
        for turns, factor in enumerate(_WINDOWS[node.op_type]):
            term = tirx.const(factor, wide)
            total = total + (term * tirx.cos(turn * tirx.const(turns, wide)) if turns else term)
        return store(total, dtype)

    return ctx.kernel("window", lambda: compute((count,), element, name="window"), dtype=dtype)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    ctx: Context, node: Node, bins: Value, length: Value, rate: Value, lower: Value, upper: Value
) -> Value:
    bands = ctx.ints(bins, minimum=0, hint="num_mel_bins")[0]
    points = ctx.ints(length, minimum=0, hint="dft_length")[0]
    samples_per_second = ctx.ints(rate, minimum=1, hint="sample_rate")[0]
    dtype = node.dtype("output_datatype", "float32")

    def build(low: te.Tensor, high: te.Tensor) -> te.Tensor:
        def double(value: ir.Expr | float) -> ir.Expr:
            return tirx.const(value, "float64") if isinstance(value, (int, float)) else tirx.Cast("float64", value)

        def mel(edge: te.Tensor) -> ir.Expr:
            return double(2595 / math.log(10)) * tirx.log1p(double(edge()) / double(700))

        step = (mel(high) - mel(low)) / double(expr(bands + 2))

        def edge(number: ir.Expr) -> ir.Expr:
            """The spectrogram bin in which a band edge lies."""
            hertz = double(700) * (
                tirx.exp((mel(low) + double(number) * step) * double(math.log(10) / 2595)) - double(1)
            )
            return tirx.Cast("int64", tirx.floor(double(expr(points + 1)) * hertz / double(expr(samples_per_second))))

        def element(frequency: ir.Expr, band: ir.Expr) -> ir.Expr:
            left, center, right = (edge(band + k) for k in range(3))
            rising = double(frequency - left) / double(tirx.max(center - left, 1))
            peak = tirx.Select(left == center, double(1), rising)
            up = tirx.Select(tirx.all(left <= frequency, frequency <= center), peak, double(0))
            falling = double(right - frequency) / double(tirx.max(right - center, 1))
            value = tirx.Select(tirx.all(center <= frequency, frequency < right), falling, up)
            return store(tirx.Cast(compute_dtype(dtype), value), dtype)

        return compute((floor_div(points, 2) + 1, bands), element, name="mel")

    edges = [ctx.reshape(edge, ()) for edge in (lower, upper)]
    return ctx.kernel("mel_weight_matrix", build, *edges, dtype=dtype)
