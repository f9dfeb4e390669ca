"""Schedules: in which loops a tensor is computed.

    schedule(y).fuse("batch", "row").split("out", 8).reorder("out.outer", "width", "out.inner")
               .vectorize("out.inner").parallel("batch.row")

A schedule begins with one loop for each dim of the tensor, then one for each dim that it reduces, and has the names of
these dims. Every method returns a new schedule, or raises `UsageError` and says why the loops cannot be so. No method
changes what is computed, up to the order of additions.

A loop whose extent depends on an index (a *vloop*) stays inside of the loops that this index comes from. What else
holds of loops is in the docstrings of the methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deploykit.errors import UsageError
from deploykit.ragged.indices import Dim, Length, closure
from deploykit.ragged.values import Load, Tensor, walk

SERIAL, PARALLEL, VECTOR, UNROLLED = "serial", "parallel", "vector", "unrolled"
MOST_LANES = 64


@dataclass(frozen=True)
class Whole:
    """The loop over a dim. Its extent is rounded up to a multiple of `padding`."""

    dim: Dim
    padding: int = 1


@dataclass(frozen=True)
class Outer:
    """The loop over tiles of `factor` iterations of the loop `of`."""

    of: str
    factor: int


@dataclass(frozen=True)
class Inner:
    """The loop within a tile of the loop `of`. The last tile may have fewer iterations."""

    of: str
    factor: int


@dataclass(frozen=True)
class Fused:
    """One loop for all iterations of `inner` within `outer`."""

    outer: str
    inner: str


Source = Whole | Outer | Inner | Fused


@dataclass(frozen=True, eq=False)
class Schedule:
    """The loops of a tensor, the first one outermost. `sources` says what every loop is, also those that were split or
    fused since; `kinds` holds those that are not serial. `remapped` are loops that start with the most work."""

    tensor: Tensor
    loops: tuple[str, ...]
    sources: Mapping[str, Source]
    kinds: Mapping[str, str] = field(default_factory=dict)
    remapped: frozenset[str] = frozenset()

    @property
    def reduced(self) -> tuple[Dim, ...]:
        return self.tensor.reduction.dims if self.tensor.reduction is not None else ()

    def split(self, loop: str, factor: int) -> Schedule:
        """`loop` becomes `loop.outer` over tiles of `factor` iterations and `loop.inner` within a tile."""
        self._require(loop)
        if factor < 1:
            raise UsageError(f"the tiles of loop '{loop}' must have at least 1 iteration, found {factor}")
        outer, inner = f"{loop}.outer", f"{loop}.inner"
        sources = {**self.sources, outer: Outer(loop, factor), inner: Inner(loop, factor)}
        return self._with(self._replaced(loop, outer, inner), sources)

    def tile(self, rows: str, columns: str, height: int, width: int) -> Schedule:
        """Split two loops and put the tiles around what is in a tile."""
        made = self.split(rows, height).split(columns, width)
        return made.reorder(f"{rows}.outer", f"{columns}.outer", f"{rows}.inner", f"{columns}.inner")

    def reorder(self, *loops: str) -> Schedule:
        """Put `loops` in this order, in the places that they have together."""
        for loop in loops:
            self._require(loop)
        if len(set(loops)) < len(loops):
            raise UsageError("a loop cannot have two places")
        following = iter(loops)
        return self._with(tuple(next(following) if loop in loops else loop for loop in self.loops), self.sources)

    def fuse(self, outer: str, inner: str) -> Schedule:
        """Make one loop, `outer.inner`, of two loops, of which `inner` is the next one inside of `outer`.

        If the extent of `inner` depends on `outer`, the prelude computes the index of `outer` for each iteration. Then
        both are loops over whole dims, or `outer` is such a fused loop."""
        for loop in (outer, inner):
            self._require(loop)
        place = self.loops.index(outer)
        if self.loops[place + 1 : place + 2] != (inner,):
            raise UsageError(f"loop '{inner}' is not the next one inside of '{outer}': reorder them first")
        if self._reduces(outer) != self._reduces(inner):
            raise UsageError(f"of the loops '{outer}' and '{inner}', one is reduced")
        if self.depends(outer, inner) and self.fused_dims(outer, inner) is None:
            raise UsageError(f"'{inner}' depends on '{outer}': only loops over whole dims, or fused ones, can be fused")
        name = f"{outer}.{inner}"
        loops = (*self.loops[:place], name, *self.loops[place + 2 :])
        return self._with(loops, {**self.sources, name: Fused(outer, inner)})

    def pad(self, loop: str, multiple: int) -> Schedule:
        """Run the loop over a dim up to a multiple of `multiple`, so that tiles are whole (*loop padding*).

        The additional iterations compute the padding of the result from the padding of operands. So both must be stored
        with at least this padding (*storage padding*), and the dim must not be reduced."""
        source = self._require(loop)
        if not isinstance(source, Whole) or source.dim not in self.tensor.dims:
            raise UsageError(f"'{loop}' is not a loop over a dim of '{self.tensor.name}', so it cannot be padded")
        if multiple < 1:
            raise UsageError(f"loop '{loop}' cannot be padded to a multiple of {multiple}")
        _require_storage(self.tensor, source.dim, multiple)
        return self._with(self.loops, {**self.sources, loop: Whole(source.dim, multiple)})

    def vectorize(self, loop: str) -> Schedule:
        """Compute all iterations of the loop at once. It is the innermost one and the inner loop of a split."""
        source = self._require(loop)
        if not isinstance(source, Inner) or self.loops[-1] != loop:
            raise UsageError(f"loop '{loop}' cannot be vectorised: it is not the innermost one, or not within a tile")
        fused = [self.sources[name] for name in self.ancestors(loop)]
        if any(isinstance(each, Fused) for each in fused):
            raise UsageError(f"loop '{loop}' cannot be vectorised: it is over several fused loops")
        if source.factor > MOST_LANES:
            raise UsageError(
                f"loop '{loop}' has {source.factor} iterations; a vector has at most {MOST_LANES} elements"
            )
        return self._of_kind(loop, VECTOR)

    def unroll(self, loop: str) -> Schedule:
        """Write the body of the loop once for each iteration. It is the inner loop of a split."""
        if not isinstance(self._require(loop), Inner):
            raise UsageError(f"loop '{loop}' cannot be unrolled: it is not `.inner` of a split")
        return self._of_kind(loop, UNROLLED)

    def parallel(self, loop: str) -> Schedule:
        """Share the iterations of the loop among threads. It is the outermost one, and not reduced."""
        self._require(loop)
        if self.loops[0] != loop or self._reduces(loop):
            raise UsageError(f"loop '{loop}' cannot be parallel: it is not the outermost one, or it is reduced")
        return self._of_kind(loop, PARALLEL)

    def remap(self, loop: str) -> Schedule:
        """Begin with the indices that have the most work (*thread remapping*), so that threads end together. `loop` is
        over a whole dim, on which a length depends directly."""
        source = self._require(loop)
        if not isinstance(source, Whole) or self.weight(source.dim) is None:
            raise UsageError(f"loop '{loop}' cannot be remapped: no length of '{self.tensor.name}' has its index alone")
        return replace(self, remapped=self.remapped | {loop})

    def weight(self, dim: Dim) -> Dim | None:
        """A dim whose extent is a length of `dim`, which says how much work an index of `dim` is."""
        for other in (*self.tensor.dims, *self.reduced):
            for atom, factor in other.extent.terms:
                if isinstance(atom, Length) and atom.indices == (dim.index,) and factor > 0:
                    return other
        return None

    def dims(self, loop: str) -> set[Dim]:
        """The dims whose index a loop is a part of."""
        source = self.sources[loop]
        if isinstance(source, Whole):
            return {source.dim}
        if isinstance(source, Fused):
            return self.dims(source.outer) | self.dims(source.inner)
        return self.dims(source.of)

    def outside(self, loop: str) -> set[str]:
        """The loops that must be outside of a loop, because its extent depends on their index."""
        source = self.sources[loop]
        if isinstance(source, Whole):
            needed = set(source.dim.extent.dims())
            return {other for other in self.loops if self.dims(other) & needed}
        if isinstance(source, Fused):
            own = {other for other in self.loops if loop in self.ancestors(other)}
            return (self.outside(source.outer) | self.outside(source.inner)) - own
        tiles = {other for other in self.loops if f"{source.of}.outer" in self.ancestors(other)}
        return self.outside(source.of) | (tiles if isinstance(source, Inner) else set())

    def ancestors(self, loop: str) -> set[str]:
        """The loop itself, and all that it was made from."""
        source = self.sources[loop]
        if isinstance(source, Whole):
            return {loop}
        if isinstance(source, Fused):
            return {loop} | self.ancestors(source.outer) | self.ancestors(source.inner)
        return {loop} | self.ancestors(source.of)

    def depends(self, outer: str, inner: str) -> bool:
        """Whether the extent of `inner`, a loop that was fused, depended on `outer`."""
        needed = {dim for name in self.ancestors(inner) for dim in _extent_dims(self.sources[name])}
        return bool(needed & self.dims(outer))

    def fused_dims(self, outer: str, inner: str) -> tuple[Whole, ...] | None:
        """The whole dims of two loops in order; None if one of them is only a part of a dim."""
        first, last = self.sources[outer], self.sources[inner]
        if not isinstance(last, Whole):
            return None
        if isinstance(first, Whole):
            return (first, last)
        found = self.fused_dims(first.outer, first.inner) if isinstance(first, Fused) else None
        return None if found is None else (*found, last)

    def _reduces(self, loop: str) -> bool:
        return bool(self.dims(loop) & set(self.reduced))

    def _require(self, loop: str) -> Source:
        if loop not in self.loops:
            raise UsageError(f"'{self.tensor.name}' has no loop '{loop}'; it has {', '.join(self.loops)}")
        return self.sources[loop]

    def _replaced(self, loop: str, *others: str) -> tuple[str, ...]:
        place = self.loops.index(loop)
        return (*self.loops[:place], *others, *self.loops[place + 1 :])

    def _of_kind(self, loop: str, kind: str) -> Schedule:
        return replace(self, kinds={**self.kinds, loop: kind})

    def _with(self, loops: tuple[str, ...], sources: Mapping[str, Source]) -> Schedule:
        kinds = {loop: kind for loop, kind in self.kinds.items() if loop in loops}
        made = Schedule(self.tensor, loops, sources, kinds, self.remapped & set(loops))
        made._check()
        return made

    def _check(self) -> None:
        """Every loop is inside of the loops that its extent depends on."""
        for place, loop in enumerate(self.loops):
            for later in self.loops[place + 1 :]:
                if later in self.outside(loop):
                    raise UsageError(f"loop '{loop}' must stay inside of '{later}', on which its extent depends")
        vector = next((loop for loop, kind in self.kinds.items() if kind == VECTOR), None)
        if vector is not None and self.loops[-1] != vector:
            raise UsageError(f"loop '{vector}' is vectorised, so it stays the innermost one")
        first = next((place for place, loop in enumerate(self.loops) if self._reduces(loop)), len(self.loops))
        for loop in self.loops[first:]:
            if not self._reduces(loop) and not isinstance(self.sources[loop], Inner):
                raise UsageError(f"loop '{loop}' is inside of a reduced loop, so it must be `.inner` of a split")


def schedule(tensor: Tensor) -> Schedule:
    """The loops of a tensor as it is written: one for each dim, the last one innermost."""
    if tensor.value is None:
        raise UsageError(f"'{tensor.name}' is an input: nothing computes it")
    dims = (*tensor.dims, *(tensor.reduction.dims if tensor.reduction is not None else ()))
    names = tuple(dim.name for dim in dims)
    if len(set(names)) < len(names):
        raise UsageError(f"two dims of '{tensor.name}' have the same name")
    return Schedule(tensor, names, {dim.name: Whole(dim) for dim in dims})


def _extent_dims(source: Source) -> set[Dim]:
    return set(source.dim.extent.dims()) if isinstance(source, Whole) else set()


def _require_storage(tensor: Tensor, dim: Dim, multiple: int) -> None:
    """Raises `UsageError` unless the elements that a padded loop touches are stored."""
    assert tensor.value is not None
    accesses = [(tensor, tuple(own.index for own in tensor.dims))]
    accesses += [(part.tensor, part.indices) for part in walk(tensor.value) if isinstance(part, Load)]
    loads = [part for part in walk(tensor.value) if isinstance(part, Load) and part.outside is not None]
    reduced = tensor.reduction.dims if tensor.reduction is not None else ()
    # the dims that have more indices in the padding than elsewhere, and `dim` itself
    longer = {each for each in (*tensor.dims, *reduced) if dim in closure({each})}
    for accessed, indices in accesses:
        for position, (own, index) in enumerate(zip(accessed.dims, indices, strict=True)):
            used = longer & set(index.dims())
            if not used or any(load.indices is indices for load in loads):
                continue
            stored = accessed.padding.get(own, 1)
            extent = own.extent.at(dict(zip(accessed.dims[:position], indices, strict=False)))
            same = any(index == each.index and extent == each.extent for each in used)
            if not same or (dim in used and stored % multiple):
                raise UsageError(
                    f"loop '{dim.name}' of '{tensor.name}' cannot be padded to a multiple of {multiple}: "
                    f"'{accessed.name}' is stored with padding to a multiple of {stored} there"
                )
