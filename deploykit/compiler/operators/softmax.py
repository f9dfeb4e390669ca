"""Softmax, LogSoftmax and Hardmax along one axis, counted from the front.

They are computed in float32, or in float64 for float64. (Source: ONNX operators Softmax, LogSoftmax, Hardmax, opset
13.)
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, te, tirx

from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.anchors.attention import SOFTMAX
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.reduce_axes import lowest
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.softmax_exp import power_of
from deploykit.compiler.tir.extrema import maximum


def softmax(ctx: Context, x: Value, axis: int) -> Value:
    """`exp(x - max) / sum(exp(x - max))` along an axis. Along the last axis, there is one division per row."""
    last = axis == x.rank - 1

    def build(rows: _Rows) -> te.Tensor:
        peak = rows.reduce("peak", te.max, rows.x)
        powers = rows.compute("powers", lambda *i: power_of(rows.x(*i) - peak(*rows.row(i))))
        total = rows.reduce("total", te.sum, powers)
        if not last:
            return rows.result("softmax", lambda *i: powers(*i) / total(*rows.row(i)))
        shape, one = total.shape, tirx.const(1, total.dtype)
        share = compute(shape, lambda *i: one / total(*i), name="share", attrs={ANCHOR: "share"})
        return rows.result("softmax", lambda *i: powers(*i) * share(*rows.row(i)), {SOFTMAX: "nan"})

    return _kernel(ctx, "softmax", x, axis, build)


def log_softmax(ctx: Context, x: Value, axis: int) -> Value:
    """`x - max - log(sum(exp(x - max)))` along an axis."""

    def build(rows: _Rows) -> te.Tensor:
        peak = rows.reduce("peak", te.max, rows.x)
        shifted = rows.compute("shifted", lambda *i: rows.x(*i) - peak(*rows.row(i)))
        total = rows.reduce("total", te.sum, lambda *i: power_of(shifted(*i)))
        return rows.result("log_softmax", lambda *i: shifted(*i) - tirx.log(total(*rows.row(i))))

    return _kernel(ctx, "log_softmax", x, axis, build)


def hardmax(ctx: Context, x: Value, axis: int) -> Value:
    """1 at the first greatest element along an axis, or at the first NaN; 0 elsewhere."""

    def build(rows: _Rows) -> te.Tensor:
        peak = rows.reduce("peak", te.comm_reducer(maximum, lowest, name="peak"), rows.x)
        none = tirx.const(2**62, "int64")

        def place(*i: ir.Expr) -> ir.Expr:
            value = rows.x(*i)
            found = tirx.any(tirx.EQ(value, peak(*rows.row(i))), tirx.isnan(value))
            return tirx.Select(found, tirx.Cast("int64", i[axis]), none)

        first = rows.reduce("first", te.min, place)
        dtype = compute_dtype(x.dtype)
        return rows.result("hardmax", lambda *i: tirx.Cast(dtype, first(*rows.row(i)) == i[axis]))

    return _kernel(ctx, "hardmax", x, axis, build)


class _Rows:
    """Builds kernel stages over a tensor and over its rows along `axis`."""

    def __init__(self, tensor: te.Tensor, value: Value, axis: int) -> None:
        self.value, self.axis = value, axis
        self.tensor = tensor

    def x(self, *index: ir.Expr) -> ir.Expr:
        return load(self.tensor, self.value.dtype, index)

    def row(self, index: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        """The index of the row that contains an element."""
        return (*index[: self.axis], *index[self.axis + 1 :])

    def reduce(self, name: str, reducer: Callable[..., ir.Expr], element: Callable[..., ir.Expr]) -> te.Tensor:
        along = reduce_axis(self.value.shape[self.axis], name="along")
        shape = self.row(tuple(self.value.shape))
        return compute(
            shape, lambda *i: reducer(element(*i[: self.axis], along.var, *i[self.axis :]), axis=[along]), name=name
        )

    def compute(self, name: str, element: Callable[..., ir.Expr]) -> te.Tensor:
        return compute(self.value.shape, element, name=name)

    def result(
        self, name: str, element: Callable[..., ir.Expr], annotations: dict[str, str] | None = None
    ) -> te.Tensor:
        return compute(self.value.shape, lambda *i: store(element(*i), self.value.dtype), name=name, attrs=annotations)


def _kernel(ctx: Context, name: str, x: Value, axis: int, build: Callable[[_Rows], te.Tensor]) -> Value:
    result = ctx.kernel(name, lambda t: build(_Rows(t, x, axis)), x, dtype=x.dtype)
    assert isinstance(result, Value)
    return result
