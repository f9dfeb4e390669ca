"""How a stage accesses memory: row-major offsets, strides per axis, and which axes can be fused into one loop.

A stride is the change of an access's offset when an axis advances by one. It is `None` if that change depends on any
axis (indices through `//`, `%`, conditions or other tensors). Two neighbouring axes can be fused if the stride of every
access along the outer one is `inner stride * inner extent`. The fused index then replaces the inner axis, and the outer
one becomes 0. An axis whose value is used outside of indices cannot be fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, sym, tirx

from deploykit.compiler import dims
from deploykit.compiler.schedules.kernel.loops import without_units
from deploykit.compiler.schedules.kernel.stages import Axis, analyzer
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, replace_loads, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static


class Views:
    """One-dimensional views of buffers, declared once per kernel."""

    def __init__(self) -> None:
        self._views: dict[Buffer, Buffer] = {}

    def flat(self, buffer: Buffer) -> Buffer:
        """The one-dimensional view of `buffer`, which a row-major offset indexes."""
        if len(buffer.shape) == 1:
            return buffer
        if buffer not in self._views:
            self._views[buffer] = tirx.decl_buffer((size_of(buffer),), buffer.dtype, f"{buffer.name}_flat")
        return self._views[buffer]

    def declarations(self, buffer: Buffer) -> list[tirx.Stmt]:
        """The declaration of the view of `buffer`, if it was asked for."""
        view = self._views.get(buffer)
        return [] if view is None else [tirx.DeclBuffer(view, data=buffer.data)]

    def value(self, value: Expr) -> Expr:
        """`value`, with every load through a flat view."""
        return replace_loads(value, self._load)

    def store(self, store: tirx.BufferStore) -> tirx.BufferStore:
        """`store`, with every access through a flat view."""
        offset = self.value(offset_of(store.buffer, store.indices))
        return tirx.BufferStore(self.flat(store.buffer), self.value(store.value), [offset])

    def _load(self, load: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(self.flat(load.source), [offset_of(load.source, load.indices)])


@dataclass(frozen=True)
class Access:
    """One load or store, with its stride along each of the axes that it was analysed for."""

    buffer: Buffer
    strides: tuple[Expr | None, ...]

    def contiguous(self, axis: int) -> bool:
        """Whether consecutive indices of `axis` access consecutive elements, or all the same one."""
        return static_stride(self.strides[axis]) in (0, 1)


def static_stride(stride: Expr | None) -> int | None:
    """A stride as an integer, or None if it is not constant."""
    return None if stride is None else static(stride)


def size_of(buffer: Buffer) -> Expr:
    """The number of elements of a buffer."""
    size: Expr = const(1)
    for extent in buffer.shape:
        size = size * as_index(extent)
    return size


def offset_of(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """The row-major offset of an element."""
    offset: Expr = const(0)
    for index, extent in zip(indices, buffer.shape, strict=True):
        offset = offset * as_index(extent) + as_index(index)
    return offset


def analyse(values: Sequence[Expr | tirx.BufferStore], axes: Sequence[Axis]) -> list[Access]:
    """The accesses of expressions and stores, analysed for `axes`."""
    known = analyzer(axes)
    nodes: list[tuple[Buffer, Sequence[Expr]]]
    nodes = [(node.buffer, node.indices) for node in values if isinstance(node, tirx.BufferStore)]
    nodes += [(load.source, load.indices) for value in values for load in collect(value, ir.TensorLoad)]
    return [Access(buffer, _strides(buffer, indices, axes, known)) for buffer, indices in nodes]


def _strides(
    buffer: Buffer, indices: Sequence[Expr], axes: Sequence[Axis], known: sym.Analyzer
) -> tuple[Expr | None, ...]:
    variables = [axis.var for axis in axes]
    offset = known.simplify(offset_of(buffer, indices))
    used = set(collect(offset, ir.Var))
    strides: list[Expr | None] = []
    for variable in variables:
        if variable not in used:
            strides.append(const(0))
            continue
        step: Expr = known.simplify(substitute(offset, {variable: variable + 1}) - offset)
        if collect(step, ir.TensorLoad):
            strides.append(None)
            continue
        if _depends(step, variables):
            step = as_index(dims.simplify(step))
        strides.append(None if _depends(step, variables) else step)
    return tuple(strides)


def _depends(value: Expr, variables: Sequence[ir.Var]) -> bool:
    return not set(variables).isdisjoint(collect(value, ir.Var))


def pinned(values: Sequence[Expr | tirx.BufferStore], axes: Sequence[Axis]) -> frozenset[int]:
    """The positions of axes whose value is used outside of indices."""
    stored = [value.value if isinstance(value, tirx.BufferStore) else value for value in values]
    bare = [replace_loads(value, lambda load: tirx.const(0, dtype_of(load))) for value in stored]
    used = {var for value in bare for var in collect(value, ir.Var)}
    return frozenset(position for position, axis in enumerate(axes) if axis.var in used)


@dataclass(frozen=True)
class Fused:
    """A loop that replaces one or several neighbouring axes. `inner` is the position of the innermost of them, and
    `values` are the values of these axes."""

    axis: Axis
    inner: int
    values: tuple[tuple[ir.Var, Expr], ...]


def fuse(
    axes: Sequence[Axis], found: Sequence[Access], fixed: frozenset[int], positions: range | None = None
) -> list[Fused]:
    """The fewest loops that cover `axes` (or those at `positions`), outermost first."""
    known = sym.Analyzer()
    fused: list[Fused] = []
    for position in reversed(range(len(axes)) if positions is None else positions):
        axis = axes[position]
        if axis.static == 1:
            continue
        if fused and not fixed & {position, fused[-1].inner} and _fusible(position, fused[-1], found, known):
            fused[-1] = _merge(axis, fused[-1])
        else:
            var = ir.Var(axis.var.name.removeprefix("v_"), dtype_of(axis.var))
            fused.append(Fused(Axis(var, axis.extent), position, ((axis.var, var),)))
    return fused[::-1]


def _fusible(position: int, inner: Fused, found: Sequence[Access], known: sym.Analyzer) -> bool:
    for access in found:
        outer_stride, inner_stride = access.strides[position], access.strides[inner.inner]
        if outer_stride is None or inner_stride is None:
            return False
        if not known.can_prove_equal(outer_stride, inner_stride * as_index(inner.axis.extent)):
            return False
    return True


def _merge(outer: Axis, inner: Fused) -> Fused:
    extent = sym.Analyzer().simplify(as_index(outer.extent) * as_index(inner.axis.extent))
    var = ir.Var(inner.axis.var.name, "int64")
    zero = tirx.IntImm(dtype_of(outer.var), 0)
    innermost = inner.values[0][0]
    index = var if dtype_of(innermost) == "int64" else var.astype(dtype_of(innermost))
    rest = tuple((variable, value) for variable, value in inner.values[1:])
    return Fused(Axis(var, extent), inner.inner, ((innermost, index), *rest, (outer.var, zero)))


def values_of(fused: Sequence[Fused], axes: Sequence[Axis]) -> dict[ir.Var, Expr]:
    """The value of every one of `axes` in terms of the fused loops."""
    _, units = without_units(axes)
    return units | {var: value for loop in fused for var, value in loop.values}
