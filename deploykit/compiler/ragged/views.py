"""Which ragged tensors a dense kernel can compute, and how the kernel sees its operands.

flat       Over the rows of all instances at once. The dims are `(batch, row, rest...)`, and every ragged operand is
           read at the same batch and row. Then its elements are those of a dense tensor `[tokens, rest...]`.
instance   A product whose extents depend on the instance alone, like `A[b] @ B[b]` of `m[b] x k[b]` and
           `k[b] x n[b]`. Then the elements of an instance are those of dense tensors.
alone      A product of which no extent depends on an instance: that of one instance.

In a product of the last two kinds, the extent of the reduced dim may also be affine in a dim of the result, as for the
rows of a triangle. In a product of instances, that of the last dim may be instead. The kernel sees the elements of a
tensor with such a dim one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploykit.compiler.decisions import Declined
from deploykit.ragged.indices import Dim, Length
from deploykit.ragged.values import Apply, Load, OfIndex, Tensor, Value, walk


@dataclass(frozen=True)
class View:
    """A tensor as a kernel sees it: without the first `dropped` dims, or with the number of a token instead of them.
    `flat`: the other dims depend on each other, and the view has one dim."""

    tensor: Tensor
    dropped: int
    flat: bool = False


def flat_views(tensor: Tensor) -> dict[Tensor, View] | Declined:
    """The views of the operands and the result of a tensor that is computed over tokens, or why it is not."""
    outer, rest = tensor.dims[:2], tensor.dims[2:]
    if len(outer) < 2 or not depends_on(outer[1], {outer[0]}) or _ragged(rest, set()) or tensor.padding:
        return Declined("its dims are not (batch, row, dense dims)")
    return _views(tensor, outer, rest)


def product_views(tensor: Tensor, batched: int) -> dict[Tensor, View] | Declined:
    """The views of the operands and the result of a product that is computed for each instance, or why it is not.
    `batched` is the number of dims that say which instance it is, 1 or 0."""
    reduction = tensor.reduction
    if reduction is None or reduction.kind != "sum" or not is_product(reduction.value) or len(reduction.dims) > 1:
        return Declined("it is no sum of products")
    outer, rest = tensor.dims[:batched], tensor.dims[batched:]
    row = row_of(rest[-1], rest) if batched and len(rest) > 1 else None
    if row is not None and (row_of(reduction.dims[0], rest) is not None or not _affine(rest[-1], set(outer))):
        return Declined("its columns and its reduction depend on the row, or its columns in several ways")
    own = {*outer, *([row] if row is not None else [])}
    lone = _ragged(outer, set()) or _ragged(rest[:-1], set(outer)) or _ragged(rest[-1:], own)
    if len(rest) < 2 or lone or tensor.padding:
        return Declined("its extents do not depend on the instance alone")
    return _views(tensor, outer, rest)


def row_of(dim: Dim, rest: Sequence[Dim]) -> Dim | None:
    """The dim, among those of a result, in which the extent of a reduced dim, or of the last one, is affine."""
    return next((own for own in rest[:-1] if own in dict(dim.extent.terms)), None)


def _views(tensor: Tensor, outer: tuple[Dim, ...], rest: tuple[Dim, ...]) -> dict[Tensor, View] | Declined:
    assert tensor.value is not None
    reduced = tensor.reduction.dims if tensor.reduction is not None else ()
    instance = set(outer) if len(outer) < 2 else set()
    rows = {row for dim in reduced if len(outer) < 2 and (row := row_of(dim, rest)) is not None}
    if _ragged(reduced, instance | rows) or not all(_affine(dim, instance) for dim in reduced):
        return Declined("the extent of a reduction depends on more than the instance and the row")
    flat = _ragged(rest, set(outer))
    found = {tensor: View(tensor, len(outer), flat)}
    inner = {*rest, *reduced}
    for part in walk(tensor.value):
        if isinstance(part, OfIndex) and not set(part.index.dims()) <= inner:
            return Declined("it computes with the index of the instance")
        if isinstance(part, OfIndex) and list(part.index.lengths()):
            return Declined("it computes with lengths")
        if isinstance(part, Load):
            view = _view(part, outer, inner, flat or bool(rows))
            if isinstance(view, Declined) or found.setdefault(part.tensor, view) != view:
                return view if isinstance(view, Declined) else Declined("it reads a tensor in two ways")
    return found


def _view(load: Load, outer: tuple[Dim, ...], inner: set[Dim], triangle: bool) -> View | Declined:
    tensor, count = load.tensor, len(outer)
    if load.outside is not None or tensor.padding:
        return Declined("it reads elements that may not exist, or with padding between them")
    lead = load.indices[:count] == tuple(dim.index for dim in outer)
    if lead:
        extents = [
            own.extent.at(dict(zip(tensor.dims[:1], load.indices[:1], strict=True))) for own in tensor.dims[:count]
        ]
        lead = extents == [dim.extent for dim in outer]
    own = set(tensor.dims[:count]) if lead and count < 2 else set()
    rest, indices = (tensor.dims[count:], load.indices[count:]) if lead else (tensor.dims, load.indices)
    flat = _ragged(rest, own)
    if flat and not (triangle and all(_affine(dim, own) and set(dim.extent.dims()) <= {*own, *rest} for dim in rest)):
        return Declined("an operand has other ragged dims")
    if any(not set(index.dims()) <= inner or list(index.lengths()) for index in indices):
        return Declined("an operand is read across instances")
    return View(tensor, count if lead else 0, flat)


def _affine(dim: Dim, instance: set[Dim]) -> bool:
    """Whether the lengths in the extent of a dim are those of the instance."""
    lengths = (atom for atom, _ in dim.extent.terms if isinstance(atom, Length))
    return all(set(index.dims()) <= instance for length in lengths for index in length.indices)


def _ragged(dims: Sequence[Dim], allowed: set[Dim]) -> bool:
    """Whether an extent depends on an index that is not `allowed`."""
    return any(not set(dim.extent.dims()) <= allowed for dim in dims)


def depends_on(dim: Dim, outer: set[Dim]) -> bool:
    return set(dim.extent.dims()) == outer


def is_product(value: Value) -> bool:
    return isinstance(value, Apply) and value.function == "mul" and all(isinstance(x, Load) for x in value.operands)
