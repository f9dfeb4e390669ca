"""Matrix products of ragged tensors: `relax.matmul`, whose leading dims broadcast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import tirx

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.ragged.conversion.contents import Content, PaddedAxes, RaggedDim, axes_of, subsets
from deploykit.compiler.ragged.conversion.states import State, along, binary, garbage, summed
from deploykit.compiler.tir.rewriting import Expr


def product_content(shapes: Sequence[Sequence[Expr]], left: Content, right: Content, dim: RaggedDim) -> Content:
    """The content of `left @ right`. `shapes` are those of both operands and of the result."""
    a, b, out = shapes
    if not (left.is_ragged or right.is_ragged):
        batch, ragged = axes_of(out, dim)
        state = along(tirx.Add, binary(tirx.Mul, left.valid, right.valid))
        return Content(batch, ragged, dict.fromkeys(subsets(ragged), state))
    if len(a) < 2 or len(b) < 2:
        raise Unsupported("a product with a vector cannot be ragged yet")
    batch, ragged = axes_of(out, dim)
    places = [_places(len(a), len(out), rows=True), _places(len(b), len(out), rows=False)]
    depth = (len(a) - 1, len(b) - 2)
    if batch is None and any(each.is_ragged for each in (left, right)):
        batch = next(
            place[each.batch]
            for each, place in zip((left, right), places, strict=True)
            if each.batch is not None and each.batch in place
        )
    states = {padded: _state((left, right), places, depth, padded, dim) for padded in subsets(ragged)}
    return Content(batch if ragged else None, ragged, states)


def _places(rank: int, result: int, *, rows: bool) -> dict[int, int]:
    """The axis of the result for each axis of an operand, apart from the one that is summed over."""
    places = {axis: axis + result - rank for axis in range(rank - 2)}
    return places | ({rank - 2: result - 2} if rows else {rank - 1: result - 1})


def _state(
    operands: tuple[Content, Content],
    places: Sequence[Mapping[int, int]],
    depth: tuple[int, int],
    padded: PaddedAxes,
    dim: RaggedDim,
) -> State:
    """The state of the result where it is `padded`."""
    found: list[State] = []
    ragged_sum = any(axis in content.ragged for content, axis in zip(operands, depth, strict=True))
    for deep in (False, True) if ragged_sum else (False,):
        states = []
        for content, place, axis in zip(operands, places, depth, strict=True):
            inside = {own for own in content.ragged if place.get(own) in padded}
            if deep and axis in content.ragged:
                inside.add(axis)
            states.append(content.states[frozenset(inside)])
        found.append(binary(tirx.Mul, *states))
    if not ragged_sum:
        return along(tirx.Add, found[0])
    combined = summed(tirx.Add, found[0], found[1])
    if combined is None:
        return garbage(f"it sums over '{dim.extent.name}', and the padding is not masked")
    return combined
