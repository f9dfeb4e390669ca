"""Accesses of an instance's part of a packed tensor, without pointers.

A view of an instance, or a flat view of it, becomes the packed tensor: the offset of the instance's first element is
added to the row-major offset of each element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.access import Views, offset_of
from deploykit.compiler.schedules.vloop import statements_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect


@dataclass(frozen=True)
class Place:
    """Where an instance's part of a tensor is: in `packed`, from the element `first` on."""

    packed: Buffer
    first: Expr


class Accesses:
    """Replaces accesses of an instance's buffers by those of whole tensors, of which `views` gives flat views. `places`
    says where the buffers are."""

    def __init__(self, places: Mapping[Buffer, Place], views: Views) -> None:
        self.places, self.views = dict(places), views

    def without_views(self, body: tirx.Stmt) -> list[tirx.Stmt]:
        """The statements of a part, less the declarations of flat views of the instance's buffers."""
        kept: list[tirx.Stmt] = []
        for statement in statements_of(body):
            place = self.viewed(statement.data) if isinstance(statement, tirx.DeclBuffer) else None
            if isinstance(statement, tirx.DeclBuffer) and place is not None:
                self.places[statement.buffer] = place
            else:
                kept.append(statement)
        return kept

    def viewed(self, data: Expr) -> Place | None:
        """The place of the buffer whose elements are at `data`."""
        bases = set(collect(data, ir.Var))
        return next((place for buffer, place in self.places.items() if buffer in bases), None)

    def rewritten(self, body: tirx.Stmt) -> tirx.Stmt:
        def load(found: ir.TensorLoad) -> Expr:
            place = self.places.get(found.source)
            return found if place is None else tirx.BufferLoad(*self.at(place, found.source, found.indices))

        def store(found: tirx.BufferStore) -> tirx.Stmt:
            place = self.places.get(found.buffer)
            if place is None:
                return found
            buffer, indices = self.at(place, found.buffer, found.indices)
            return tirx.BufferStore(buffer, found.value, indices)

        result: tirx.Stmt = tvm_ffi.structural_map(body, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
        return result

    def at(self, place: Place, buffer: Buffer, indices: Sequence[Expr]) -> tuple[Buffer, list[Expr]]:
        return self.views.flat(place.packed), [place.first + offset_of(buffer, list(indices))]
