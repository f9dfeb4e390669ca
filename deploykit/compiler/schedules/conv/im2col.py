"""Patches: the data that some neighbouring outputs of a convolution read, copied to contiguous memory.

The outputs of a convolution over data `[N, *spatial, C]` are numbered in their order in memory. The terms of an
output's sum are numbered like its weights: taps in row-major order, channels within a tap. A patch holds a range of
terms for a run of outputs, one row per output, with zeros for taps in the padding. The range is one of the `Blocks`
that all terms are cut into, so that a patch stays in the first-level cache:

* some *lines* of taps along the last spatial dim, or
* channels of a single tap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from tvm import tirx

from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, unravel, vectorized
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import as_index, bits_of, const


@dataclass(frozen=True)
class Blocks:
    """How the terms of a sum are cut into `count` blocks of `terms` terms. A block holds `lines` lines of taps; if
    `lines` is 0, it holds `terms` channels of a single tap."""

    count: int
    terms: int
    lines: int


def blocks_of(kernel: Sequence[int], depth: int, most: int) -> Blocks:
    """The largest blocks of at most `most` terms, for `depth` channels."""
    line, outer = kernel[-1] * depth, prod(kernel[:-1])
    if line <= most:
        lines = max(n for n in range(1, outer + 1) if outer % n == 0 and n * line <= most)
        return Blocks(outer // lines, lines * line, lines)
    pieces = next((n for n in range(1, depth + 1) if depth % n == 0 and depth // n <= most and depth // n >= 16), 1)
    return Blocks(outer * kernel[-1] * pieces, depth // pieces, 0)


@dataclass(frozen=True)
class Source:
    """The data of a convolution, as `flat` and with its `shape`, and how outputs with extents `spatial` read it.
    `depth` is the number of channels of a group."""

    flat: Buffer
    shape: Sequence[Expr]
    spatial: Sequence[Expr]
    conv: ConvShape
    kernel: Sequence[int]
    depth: int

    @property
    def sizes(self) -> list[Expr]:
        """The extents of the data's spatial dims."""
        return [as_index(extent) for extent in self.shape[1:-1]]


@dataclass(frozen=True)
class Patch:
    """A patch in `buffer`, with a row every `pitch` elements, for as many outputs as a register tile has rows."""

    source: Source
    blocks: Blocks
    buffer: Buffer
    pitch: int
    lanes: int

    def fill(self, first: Expr, rows: int, group: Expr, block: Expr) -> tirx.Stmt:
        """Copy a block of terms for the outputs numbered from `first` on."""
        source = self.source
        at = local("at", len(source.spatial) + 1, "int64")
        code = Code()
        code.add(tirx.AllocBuffer(at))
        for dim, place in enumerate(unravel(first, [const(0), *source.spatial])):
            code.add(tirx.BufferStore(at, place, [const(dim)]))

        def row(index: Expr) -> tirx.Stmt:
            place = [tirx.BufferLoad(at, [const(dim)]) for dim in range(len(source.spatial) + 1)]
            return sequence([self._row(place, index * self.pitch, group, block), _advance(at, source.spatial)])

        code.add(loop("row", rows, row))
        return code.statement()

    def _row(self, place: Sequence[Expr], target: Expr, group: Expr, block: Expr) -> tirx.Stmt:
        """Copy the terms of one output."""
        kernel, code = self.source.kernel, Code()
        corner = [
            code.let("corner", at * stride - begin)
            for at, stride, begin in zip(place[1:], self.source.conv.strides, self.source.conv.begins, strict=True)
        ]
        if not self.blocks.lines:
            pieces = self.source.depth // self.blocks.terms
            taps = unravel(tirx.truncdiv(block, const(pieces)), [const(n) for n in (0, *kernel[1:])])
            channel = group * self.source.depth + tirx.truncmod(block, const(pieces)) * self.blocks.terms
            code.add(self._tap(place[0], corner, taps, channel, target))
            return code.statement()

        def line(index: Expr) -> tirx.Stmt:
            taps = unravel(block * self.blocks.lines + index, [const(n) for n in (0, *kernel[1:-1])])
            return self._line(place[0], corner, taps if kernel[:-1] else [], group, target + index * width)

        width = kernel[-1] * self.source.depth
        code.add(loop("line", self.blocks.lines, line))
        return code.statement()

    def _line(self, image: Expr, corner: Sequence[Expr], taps: Sequence[Expr], group: Expr, target: Expr) -> tirx.Stmt:
        """Copy the terms of a line of taps, in one piece if the whole line is inside of the data."""
        source, width = self.source, self.source.kernel[-1]
        depth, conv = source.depth, source.conv
        together = conv.dilation[-1] == 1 and conv.groups == 1

        def tap(index: Expr) -> tirx.Stmt:
            place = target + index * depth
            return self._tap(image, corner, [*taps, index], group * depth, place)

        apart = loop("tap", width, tap)
        outer, conditions = self._inside(corner, taps)
        if together:
            whole = self._copy(self._offset(image, [*outer, corner[-1]], const(0)), target, width * depth)
            before, beyond = conv.begins[-1] > 0, conv.ends[-1] > 0
            last = [corner[-1] >= 0] if before else []
            last += [corner[-1] + width <= source.sizes[-1]] if beyond else []
            apart = tirx.IfThenElse(tirx.all(*last), whole, apart) if last else whole
        if not conditions:
            return apart
        return tirx.IfThenElse(tirx.all(*conditions), apart, self._clear(target, width * depth))

    def _tap(self, image: Expr, corner: Sequence[Expr], taps: Sequence[Expr], channel: Expr, target: Expr) -> tirx.Stmt:
        """Copy the channels of one tap."""
        at, conditions = self._inside(corner, taps)
        count = self.blocks.terms if not self.blocks.lines else self.source.depth
        copied = self._copy(self._offset(image, at, channel), target, count)
        if not conditions:
            return copied
        return tirx.IfThenElse(tirx.all(*conditions), copied, self._clear(target, count))

    def _inside(self, corner: Sequence[Expr], taps: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
        """The indices in the data of taps along the first dims, and the conditions under which they are inside of
        it."""
        conv = self.source.conv
        at = [c + tap * d for c, tap, d in zip(corner, taps, conv.dilation, strict=False)]
        conditions: list[Expr] = []
        for index, size, begin, end in zip(at, self.source.sizes, conv.begins, conv.ends, strict=False):
            conditions += [index >= 0] if begin > 0 else []
            conditions += [index < size] if end > 0 else []
        return at, conditions

    def _offset(self, image: Expr, at: Sequence[Expr], channel: Expr) -> Expr:
        offset = image
        for size, index in zip(self.source.sizes, at, strict=True):
            offset = offset * size + index
        return offset * as_index(self.source.shape[-1]) + channel

    def _copy(self, offset: Expr, target: Expr, count: int) -> tirx.Stmt:
        dtype = str(self.buffer.dtype)

        def element(index: Expr) -> tirx.Stmt:
            value = tirx.BufferLoad(self.source.flat, [offset + index]).astype(dtype)
            return tirx.BufferStore(self.buffer, value, [target + index])

        return in_vectors(count, self.lanes, element)

    def _clear(self, target: Expr, count: int) -> tirx.Stmt:
        nothing = tirx.const(0, str(self.buffer.dtype))
        return in_vectors(count, self.lanes, lambda index: tirx.BufferStore(self.buffer, nothing, [target + index]))


def patch_for(source: Source, blocks: Blocks, rows: int, lanes: int, dtype: str) -> Patch:
    """An empty patch. The pitch is an odd number of cache lines, so that rows lie in different sets of the cache."""
    line = max(1, 512 // bits_of(dtype))
    vectors = -(-blocks.terms // line)
    pitch = (vectors + 1 - vectors % 2) * line
    return Patch(source, blocks, local("patch", rows * pitch, dtype), pitch, lanes)


def in_vectors(count: int, lanes: int, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
    """`body` for `count` indices, one vector at a time. The rest is a vector that overlaps the one before, or, if there
    is none, ever narrower vectors. So `body` may run twice for an index."""
    whole = count // lanes
    steps = []
    if whole:
        steps.append(loop("v", whole, lambda v: vectorized(lanes, lambda lane: body(v * lanes + lane))))
    done, width = whole * lanes, lanes
    if whole and done < count:
        steps.append(vectorized(lanes, lambda lane: body(lane + (count - lanes))))
        done = count
    while done < count:
        width //= 2
        if done + width <= count:
            steps.append(vectorized(width, partial(_shifted, body, done)))
            done += width
    return sequence(steps)


def _shifted(body: Callable[[Expr], tirx.Stmt], start: int, lane: Expr) -> tirx.Stmt:
    return body(lane + start)


def _advance(at: Buffer, spatial: Sequence[Expr]) -> tirx.Stmt:
    """Advance the coordinates in `at` to the next output."""

    def carried(dim: int) -> tirx.Stmt:
        index = const(dim)
        here = tirx.BufferLoad(at, [index])
        step = tirx.BufferStore(at, here + 1, [index])
        if dim == 0:
            return step
        wrap = sequence([tirx.BufferStore(at, const(0), [index]), carried(dim - 1)])
        return sequence([step, tirx.IfThenElse(here >= spatial[dim - 1], wrap, None)])

    return carried(len(spatial))
