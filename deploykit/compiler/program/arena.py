"""The symbolic memory plan: where each slot of the arena lies, as an expression over dims.

The plan is made in two steps.

1. The sizes of all slots are evaluated at the upper bounds of the dims and at some points below them, and packed as
   plain numbers (`packing`). A dim without a maximum counts as `UNBOUNDED`, or as its minimum if that is greater.
2. For two slots that live at the same time, the packing says which one is below. A slot then begins where the highest
   slot directly below it ends, at the maximum of `offset + size` over those slots. So no two such slots overlap,
   whatever the dims are, even if their sizes cannot be compared. At the point where the packing was made, no slot lies
   higher than in the packing. An offset is a sum of sizes of distinct slots, so it never exceeds the sum of all sizes.
   Of several packings, the planner takes the one that is lowest at the upper bounds, then the one that is nearest to
   optimal at the other points.

An offset is kept as the maximum of a few polynomials. A term is dropped when another one is proved to be at least as
great within the bounds of the dims. More than `MAX_TERMS` terms are reduced by merging two into one that bounds both;
the pair is chosen that raises the maximum least at the upper bounds. So expressions stay small, whatever the size of
the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from deploykit.compiler.dims.bounds import Bounds
from deploykit.compiler.dims.conversion import expression, polynomial
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dims.polynomial import ZERO, Polynomial, extremum, round_up
from deploykit.compiler.model import Dim
from deploykit.compiler.program.fronts import Fronts, Term
from deploykit.compiler.program.ir import ALIGNMENT, Arena, Slot
from deploykit.compiler.program.packing import Block, Packing, PackingProblem, greedy_packings, packings

UNBOUNDED = 1024
"""The value of a dim without a maximum while slots are packed."""

MAX_TERMS = 8
"""The most polynomials in the maximum that an offset is."""

_CORNER_DIMS = 3
"""For this many dims, all combinations of their least and greatest values are points of comparison."""


@dataclass(frozen=True)
class SlotRequest:
    """A request for `size` bytes, an expression over dims, from step `first` to step `last` inclusive."""

    name: str
    size: IntExpr
    first: int
    last: int


def plan(requests: Sequence[SlotRequest], dims: Sequence[Dim], alignment: int = ALIGNMENT) -> Arena:
    """Plan the arena: one slot per request, in their order, each starting at a multiple of `alignment` bytes.

    Raises:
            ValueError: a size depends on a variable that is not a dim.
    """
    box = {dim.var: (dim.minimum, dim.maximum) for dim in dims}
    fronts = Fronts(box, _points(dims), MAX_TERMS)
    sizes = [_size(request, fronts.bounds) for request in requests]
    rounded = [fronts.term(round_up(size, alignment)) for size in sizes]
    stack = _best_stack(requests, rounded)
    offsets, total = _fronts_of_stack(stack, rounded, fronts)
    return Arena(
        tuple(
            Slot(r.name, expression(size), _maximum(offset), r.first, r.last)
            for r, size, offset in zip(requests, sizes, offsets, strict=True)
        ),
        _maximum(total),
    )


def _size(request: SlotRequest, bounds: Bounds) -> Polynomial:
    """The size of the slot in bytes; 0 where the expression is negative."""
    size = polynomial(request.size)
    unknown = [var.name for var in size.variables if var not in bounds.box]
    if unknown:
        raise ValueError(f"the size of slot '{request.name}' depends on '{unknown[0]}', which is no dim")
    return size if bounds.nonnegative(size) else extremum("max", (ZERO, size))


def _points(dims: Sequence[Dim]) -> list[dict[tirx.Var, int]]:
    """The points where sizes are compared: the upper bounds, a point in the middle, then the corners of the first
    dims."""
    low = {dim.var: dim.minimum for dim in dims}
    high = {dim.var: max(dim.minimum, UNBOUNDED) if dim.maximum is None else dim.maximum for dim in dims}
    middle = {var: math.isqrt(low[var] * high[var]) for var in low}
    choices = [{low[dim.var], high[dim.var]} for dim in dims[:_CORNER_DIMS]]
    corners = [low | dict(zip(low, corner, strict=False)) for corner in itertools.product(*map(sorted, choices))]
    unique = {tuple(point.values()): point for point in (high, middle, *corners)}
    return list(unique.values())


def _best_stack(requests: Sequence[SlotRequest], sizes: Sequence[Term]) -> _Stack:
    """The best of the stacks that packings at the points of comparison give: lowest at the upper bounds, and of those
    the nearest to the bytes that are alive at the other points."""
    at_points = list(zip(*(size.values for size in sizes), strict=True))
    problems = [
        PackingProblem([Block(n, r.first, r.last) for n, r in zip(numbers, requests, strict=True)])
        for numbers in at_points
    ]
    if not problems:
        return _Stack((), (), ())
    found = [_stack(problems[0], packing) for packing in packings(problems[0])]
    found += [_stack(problem, packing) for problem in problems[1:] for packing in greedy_packings(problem)]

    def excess(stack: _Stack) -> tuple[int, float]:
        peaks = _peaks(stack, sizes)
        return peaks[0], sum(peak / max(p.lower_bound, 1) for peak, p in zip(peaks, problems, strict=True))

    return min(dict.fromkeys(found), key=excess)


@dataclass(frozen=True)
class _Stack:
    """`below[i]`: the slots directly below slot `i`; `order`: all slots, each after those below it; `tops`: the slots
    with none above them."""

    order: tuple[int, ...]
    below: tuple[tuple[int, ...], ...]
    tops: tuple[int, ...]


def _stack(problem: PackingProblem, packing: Packing) -> _Stack:
    """Which slot stands directly on which in a packing, without the pairs that follow from others."""
    order = sorted(range(len(problem.blocks)), key=lambda i: (packing.offsets[i], i))
    rank = {index: position for position, index in enumerate(order)}
    reached = [0] * len(order)
    below: list[tuple[int, ...]] = [()] * len(order)
    covered = 0
    for index in order:
        direct: list[int] = []
        for other in sorted(problem.conflicts[index], key=rank.__getitem__, reverse=True):
            if rank[other] < rank[index] and not reached[index] >> other & 1:
                direct.append(other)
                reached[index] |= reached[other] | 1 << other
        below[index] = tuple(direct)
        covered |= reached[index]
    tops = tuple(index for index in order if not covered >> index & 1)
    return _Stack(tuple(order), tuple(below), tops)


def _peaks(stack: _Stack, sizes: Sequence[Term]) -> tuple[int, ...]:
    """The height of the stack at each point of comparison."""
    ends: dict[int, tuple[int, ...]] = {}
    ground = tuple(0 for _ in sizes[0].values)
    for index in stack.order:
        start = map(max, zip(ground, *(ends[j] for j in stack.below[index]), strict=True))
        ends[index] = tuple(a + b for a, b in zip(start, sizes[index].values, strict=True))
    return tuple(map(max, zip(ground, *(ends[j] for j in stack.tops), strict=True)))


def _fronts_of_stack(
    stack: _Stack, sizes: Sequence[Term], fronts: Fronts
) -> tuple[list[tuple[Term, ...]], tuple[Term, ...]]:
    """The offset of each slot, and the size of the arena, as fronts."""
    ground = fronts.term(ZERO)
    ends: dict[int, list[Term]] = {}
    offsets: list[tuple[Term, ...]] = [()] * len(sizes)
    for index in stack.order:
        offsets[index] = fronts.front([ground, *itertools.chain(*(ends[j] for j in stack.below[index]))])
        ends[index] = [term + sizes[index] for term in offsets[index]]
    return offsets, fronts.front([ground, *itertools.chain(*(ends[j] for j in stack.tops))])


def _maximum(terms: Sequence[Term]) -> IntExpr:
    return expression(extremum("max", (term.polynomial for term in terms)))
