"""Tables for resampling one axis: which source positions contribute to each position of the result, with which weights.

    nearest    one source position
    linear     two, weighted by distance
    cubic      four, weighted by Keys' kernel with parameter `a`

With `antialias`, kernels are stretched by the reduction factor, so that every source position contributes. Positions
beyond an end stand for the last element, or are left out with `exclude_outside`. Coordinates are computed in float64.
They take a few operations per position of the result, so the tables are computed when the model runs, for any size.

Source: the ONNX operator Resize and its reference implementation; R. G. Keys, "Cubic convolution interpolation for
digital image processing", IEEE Trans. ASSP 29 (1981).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.expressions import compute, double
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import ceil_div, clamp, expr, maximum
from deploykit.compiler.operators.building.sizes import only_integer

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value

DOUBLE = "float64"


@dataclass(frozen=True)
class Method:
    """The attributes of Resize that apply to all axes."""

    mode: str
    coordinates: str
    nearest: str
    antialias: bool = False
    exclude_outside: bool = False
    cubic_a: float = -0.75
    extrapolation: float = 0.0


@dataclass(frozen=True)
class Axis:
    """An axis to resample. `scale` is a number, `None` for `result / source`, or a float tensor of shape `(1,)`. `roi`
    is the part of the axis to use, a float tensor (start, end), if the mode needs it."""

    position: int
    source: IntExpr
    result: IntExpr
    scale: float | Value | None
    roi: Value | None = None


@dataclass(frozen=True)
class Table:
    """The table of an axis. `places` is int64 (result, taps), positions within the axis. `weights` is (result, taps),
    `None` for nearest. `outside` is int8 (result,) and marks positions that get the extrapolation value; `None` in
    modes without it."""

    taps: IntExpr
    places: Value
    weights: Value | None
    outside: Value | None


def table(ctx: Context, axis: Axis, method: Method, taps: IntExpr, precision: str) -> Table:
    """The table of an axis with weights of dtype `precision`, computed by one kernel."""
    from deploykit.compiler.operators.building.value import Value

    operands = [v for v in (axis.scale, axis.roi) if isinstance(v, Value)]
    weighted, cropped = method.mode != "nearest", method.coordinates == "tf_crop_and_resize"
    outputs: list[tuple[tuple[IntExpr, ...], str]] = [((axis.result, taps), "int64")]
    outputs += [((axis.result, taps), precision)] if weighted else []
    outputs += [((axis.result,), "int8")] if cropped else []

    def write(code: Code, *arrays: Array) -> None:
        given = list(arrays[: len(operands)])
        places, *rest = arrays[len(operands) :]
        scale = _scale(axis, given[0] if isinstance(axis.scale, Value) else None)
        with code.loop("y", axis.result) as y:
            at = code.cell("at", _coordinate(axis, method, y, scale, given[-1] if axis.roi is not None else None))
            if cropped:
                beyond = tirx.any(at.value < 0, at.value > double(axis.source - 1))
                rest[-1][y] = tirx.Cast("int8", beyond)
            if weighted:
                _write_weights(code, axis, method, (y, at.value, scale), taps, places, rest[0])
            else:
                nearest = tirx.Cast("int64", _NEAREST[method.nearest](at.value, scale))
                places[y, 0] = clamp(nearest, 0, axis.source - 1)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("resize_table", tensors, outputs, write)

    results = list(ctx.kernel("resize_table", build, *operands, dtype=tuple(dtype for _, dtype in outputs)))
    return Table(taps, results[0], results[1] if weighted else None, results[-1] if cropped else None)


def taps_of(ctx: Context, axis: Axis, method: Method) -> IntExpr:
    """The number of source positions per position of the result; a data dim if the factor is only known at run time."""
    if method.mode == "nearest":
        return 1
    width = 2 if method.mode == "cubic" else 1
    if not method.antialias:
        return 2 * width
    if axis.scale is None:
        return ctx.simplify(2 * maximum(ceil_div(width * axis.source, maximum(axis.result, 1)), width))
    if isinstance(axis.scale, float):
        factor = Fraction(width) / min(Fraction(axis.scale), Fraction(1))
        return 2 * ceil_div(factor.numerator, factor.denominator)
    most = ctx.simplify(2 * width * axis.source)

    def build(scale: te.Tensor) -> te.Tensor:
        reach = tirx.ceil(width / tirx.max(tirx.min(double(scale(0)), double(1.0)), double(1e-9)))
        return compute((1,), lambda _: tirx.min(2 * tirx.Cast("int64", reach), expr(most)), name="taps")

    return only_integer(ctx, ctx.kernel("taps", build, axis.scale, dtype="int64"), 2 * width, most, "taps")


def _scale(axis: Axis, given: Array | None) -> ir.Expr:
    if given is not None:
        return tirx.Cast(DOUBLE, given[0])
    if axis.scale is None:
        return double(axis.result) / double(axis.source)
    assert isinstance(axis.scale, float)
    return double(axis.scale)


_NEAREST: Mapping[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "round_prefer_floor": lambda at, _: tirx.ceil(at - 0.5),
    "round_prefer_ceil": lambda at, _: tirx.floor(at + 0.5),
    "floor": lambda at, _: tirx.floor(at),
    "ceil": lambda at, _: tirx.ceil(at),
    "simple": lambda at, scale: tirx.Select(scale < 1, tirx.ceil(at), tirx.floor(at)),
}
"""The rounding rules of nearest. `simple` is the rule of opsets before 11."""

NEAREST_MODES = tuple(_NEAREST)


def _coordinate(axis: Axis, method: Method, y: ir.Expr, scale: ir.Expr, roi: Array | None) -> ir.Expr:
    return COORDINATES[method.coordinates](double(y), scale, double(axis.source), double(axis.result), roi)


def _half_pixel(y: ir.Expr, scale: ir.Expr, *_: object) -> ir.Expr:
    return (y + 0.5) / scale - 0.5


def _half_pixel_symmetric(y: ir.Expr, scale: ir.Expr, source: ir.Expr, result: ir.Expr, _: object) -> ir.Expr:
    offset = source / 2.0 * (1.0 - result / (scale * source))
    return offset + _half_pixel(y, scale)


def _pytorch_half_pixel(y: ir.Expr, scale: ir.Expr, source: ir.Expr, _result: ir.Expr, _: object) -> ir.Expr:
    return tirx.Select(scale * source > 1, _half_pixel(y, scale), double(0.0))


def _align_corners(y: ir.Expr, scale: ir.Expr, source: ir.Expr, _result: ir.Expr, _: object) -> ir.Expr:
    steps = scale * source - 1.0
    return tirx.Select(steps == 0, double(0.0), y * (source - 1.0) / tirx.Select(steps == 0, double(1.0), steps))


def _crop_and_resize(y: ir.Expr, scale: ir.Expr, source: ir.Expr, _result: ir.Expr, roi: Array | None) -> ir.Expr:
    assert roi is not None
    start, end = tirx.Cast(DOUBLE, roi[0]), tirx.Cast(DOUBLE, roi[1])
    steps = scale * source - 1.0
    inner = y * (end - start) * (source - 1.0) / tirx.Select(steps == 0, double(1.0), steps)
    return tirx.Select(steps == 0, (end - start) * (source - 1.0) / 2.0, inner) + start * (source - 1.0)


COORDINATES: Mapping[str, Callable[..., ir.Expr]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": lambda y, scale, *_: y / scale,
    "tf_crop_and_resize": _crop_and_resize,
}
"""The position in the source for a position in the result, by mode."""


def _write_weights(
    code: Code, axis: Axis, method: Method, row: tuple[ir.Expr, ir.Expr, ir.Expr], taps: IntExpr, *table: Array
) -> None:
    """Write one row (position in the result, coordinate in the source, scale) of the table: places and weights.

    The window is around `(base, base + 1]`, which contains the coordinate. Its weights are normalised to a sum of 1."""
    y, at, scale = row
    places, weights = table
    base = code.cell("base", tirx.Cast("int64", tirx.ceil(at)) - 1)
    stretch = code.cell("stretch", tirx.min(scale, double(1.0)) if method.antialias else double(1.0))
    total = code.cell("total", double(0.0))
    with code.loop("k", taps) as k:
        place = code.cell("place", base.value + 1 - tirx.floordiv(expr(taps), 2) + k)
        weight = code.cell("weight", _kernel(method, (tirx.Cast(DOUBLE, place.value) - at) * stretch.value))
        if method.exclude_outside:
            within = tirx.all(place.value >= 0, place.value < axis.source)
            weight.value = tirx.Select(within, weight.value, double(0.0))
        places[y, k] = clamp(place.value, 0, axis.source - 1)
        weights[y, k] = tirx.Cast(weights.dtype, weight.value)
        total.value += weight.value
    with code.when(total.value != 0), code.loop("k", taps) as k:
        weights[y, k] = tirx.Cast(weights.dtype, tirx.Cast(DOUBLE, weights[y, k]) / total.value)


def _kernel(method: Method, distance: ir.Expr) -> ir.Expr:
    d = tirx.abs(distance)
    if method.mode == "linear":
        return tirx.max(1.0 - d, double(0.0))
    a = method.cubic_a
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return tirx.Select(d <= 1, near, tirx.Select(d < 2, far, double(0.0)))
