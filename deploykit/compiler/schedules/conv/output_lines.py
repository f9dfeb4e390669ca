"""Lines of outputs of a convolution with channels last, computed directly from the data.

A line is the outputs along the last spatial dim. Along the other dims, taps in the padding are left out. Along the last
dim, outputs that read padding are computed one at a time, and the inner outputs `width` at a time. The last tile is
moved back and overlaps the one before; in `exact` lines whose number of inner outputs is known, it has those that are
left. `body(outputs, place, spans)` does the computation: for `outputs` neighbours
from `place` on, `[image, *spatial]`, with the taps in `spans`: for each dim, the first tap and the one after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx

from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.schedules.kernel.loops import Code, loop, unravel
from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.tir.rewriting import Buffer, Expr
from deploykit.compiler.tir.values import as_index, const, static

Span = tuple[Expr, Expr]
Body = Callable[[int, Sequence[Expr], Sequence[Span]], tirx.Stmt]


@dataclass(frozen=True)
class Lines:
    """A convolution of `data` with outputs along `axes`, `[image, *spatial]`."""

    data: Buffer
    shape: ConvShape
    kernel: Sequence[int]
    axes: Sequence[Axis]
    width: int
    exact: bool = False

    @property
    def inner(self) -> int | None:
        """The outputs of a line that read no padding, if their number is known."""
        begin, end = self._inner(Code())
        return static(end - begin)

    @property
    def total(self) -> Expr:
        """The number of lines."""
        total = as_index(self.axes[0].extent)
        for axis in self.axes[1:-1]:
            total = total * as_index(axis.extent)
        return total

    def line(self, index: Expr, body: Body) -> tirx.Stmt:
        """All outputs of line `index`."""
        code = Code()
        extents = [as_index(axis.extent) for axis in self.axes[:-1]]
        image, *outer = (code.let("place", place) for place in unravel(index, extents))
        spans = [self._span(code, dim, at) for dim, at in enumerate(outer)]
        self._sweep(code, [image, *outer], spans, body)
        return code.statement()

    def offset(self, place: Sequence[Expr], taps: Sequence[Expr], channel: Expr) -> Expr:
        """The offset in the data that an output reads for a tap."""
        image, *at = place
        offset = image
        shape = self.shape
        parts = zip(at, taps, shape.strides, shape.begins, shape.dilation, self.data.shape[1:-1], strict=True)
        for index, tap, stride, begin, dilation, size in parts:
            offset = offset * as_index(size) + (index * stride - begin + tap * dilation)
        return offset * as_index(self.data.shape[-1]) + channel

    def over_taps(
        self, spans: Sequence[Span], body: Callable[[list[Expr]], tirx.Stmt], unrolled: bool = False
    ) -> tirx.Stmt:
        """`body(taps)` for all taps of `spans`. With `unrolled`, taps along the last dim are unrolled if all are
        read."""

        def taps(chosen: list[Expr]) -> tirx.Stmt:
            if len(chosen) == len(spans):
                return body(chosen)
            first, stop = spans[len(chosen)]
            whole = static(first) == 0 and static(stop) is not None and len(chosen) == len(spans) - 1
            kind = tirx.ForKind.UNROLLED if whole and unrolled else tirx.ForKind.SERIAL
            extent = stop if static(first) == 0 else stop - first
            return loop(f"k{len(chosen)}", extent, lambda k: taps([*chosen, first + k]), kind)

        return taps([])

    def _span(self, code: Code, dim: int, at: Expr) -> Span:
        """The taps along a dim that lie inside of the data, for the output at `at`."""
        shape, width = self.shape, self.kernel[dim]
        dilation, corner = const(shape.dilation[dim]), at * shape.strides[dim] - shape.begins[dim]
        first, stop = const(0), const(width)
        if shape.begins[dim] > 0:
            before = tirx.truncdiv(tirx.max(-corner, const(0)) + (dilation - 1), dilation)
            first = code.let("first", tirx.min(before, const(width)))
        if shape.ends[dim] > 0:
            inside = tirx.max(as_index(self.data.shape[dim + 1]) - corner, const(0))
            reach = tirx.min(tirx.truncdiv(inside + (dilation - 1), dilation), const(width))
            stop = code.let("stop", tirx.max(reach, first))
        return first, stop

    def _sweep(self, code: Code, place: Sequence[Expr], spans: Sequence[Span], body: Body) -> None:
        """All outputs of a line: those before the inner ones, the inner ones in tiles, and those after."""
        extent, taps, width = as_index(self.axes[-1].extent), self.kernel[-1], self.width
        begin, end = self._inner(code)
        whole = (const(0), const(taps))

        def edge(x: Expr) -> tirx.Stmt:
            inner = Code()
            along = self._span(inner, len(self.kernel) - 1, x)
            inner.add(body(1, [*place, x], [*spans, along]))
            return inner.statement()

        def tile(number: Expr) -> tirx.Stmt:
            inner = Code()
            x = inner.let("x", tirx.min(begin + number * width, end - width))
            inner.add(body(width, [*place, x], [*spans, whole]))
            return inner.statement()

        many = loop("tile", tirx.truncdiv(end - begin + (width - 1), const(width)), tile)
        few = loop("x", end - begin, lambda x: body(1, [*place, begin + x], [*spans, whole]))
        known = static(end - begin)
        code.add(loop("x", begin, edge))
        if known is None:
            code.add(tirx.IfThenElse(end - begin >= width, many, few))
        elif self.exact:
            rest = known % width
            code.add(loop("tile", known // width, tile))
            if rest:
                code.add(body(rest, [*place, end - rest], [*spans, whole]))
        else:
            code.add(many if known >= width else few)
        code.add(loop("x", extent - end, lambda x: edge(end + x)))

    def _inner(self, code: Code) -> tuple[Expr, Expr]:
        """The first of the inner outputs of a line, and the one after the last."""
        shape, stride = self.shape, self.shape.strides[-1]
        extent, size = as_index(self.axes[-1].extent), as_index(self.data.shape[-2])
        reach = (self.kernel[-1] - 1) * shape.dilation[-1]
        begin = code.let("begin", tirx.min(const(max(0, -(-shape.begins[-1] // stride))), extent))
        if shape.ends[-1] == 0:
            return begin, extent
        last = tirx.floordiv(size - 1 - reach + shape.begins[-1], const(stride)) + 1
        return begin, code.let("end", tirx.max(tirx.min(last, extent), begin))


def exact_width(inner: int | None, widths: Sequence[int]) -> int:
    """The first of `widths` that divides the inner outputs of a line, if one does, else the first."""
    return next((width for width in widths if inner is not None and inner % width == 0), widths[0])


def side_by_side(lanes: int, vectors: bool, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
    """`body` for `lanes` consecutive indices: as a vector, or in a loop that a C compiler may vectorise."""
    return loop("lane", lanes, body, tirx.ForKind.VECTORIZED if vectors else tirx.ForKind.SERIAL)
