"""Random nestings of dims, for property tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from deploykit.errors import UsageError
from deploykit.ragged import Dim, Lengths, dim, lengths
from deploykit.ragged.indices import closure
from tests.compiler.ragged.reference import Reference

MOST = 4


@dataclass
class Nesting:
    """Dims, each of which may depend on those before it, with values for the sizes and lengths."""

    dims: list[Dim] = field(default_factory=list)
    padding: dict[Dim, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    lengths: list[Lengths] = field(default_factory=list)
    entries: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def reference(self) -> Reference:
        return reference(self.sizes, self.lengths, self.entries)


def reference(sizes: Mapping[str, int], known: list[Lengths], entries: Mapping[str, np.ndarray]) -> Reference:
    """A reference for these sizes and lengths, without an operator."""
    from deploykit.ragged import Operator

    made = Reference(Operator("none", ()), sizes, {})
    for each in known:
        made.elements[each] = dict(zip(made.indices(each.dims), map(int, entries[each.name]), strict=True))
    return made


@st.composite
def nestings(draw: st.DrawFn, least: int = 1, *, padded: bool = False) -> Nesting:
    """A nesting of up to four dims. The first dim is a size."""
    made = Nesting()
    for place in range(draw(st.integers(least, 4))):
        name = f"d{place}"
        kinds = ["constant", "size"] if place == 0 else ["constant", "size", "lengths", "lengths", "affine"]
        kind = "size" if place == 0 else draw(st.sampled_from(kinds))
        if kind == "constant":
            found = dim(name, draw(st.integers(1, 3)))
        elif kind == "size":
            found = dim(name, maximum=MOST)
            made.sizes[name] = draw(st.integers(0, 3))
        elif kind == "lengths":
            found = dim(name, _length(draw, made, name))
        else:
            found = _affine(draw, made, name)
        made.dims.append(found)
        if padded and draw(st.booleans()):
            made.padding[found] = draw(st.integers(1, 4))
    indexed: set[object] = {index_dim for each in made.lengths for index_dim in each.dims}
    indexed |= {each for other in made.dims for each, factor in other.extent.terms if factor < 0}
    made.padding = {each: multiple for each, multiple in made.padding.items() if each not in indexed}
    return made


def _length(draw: st.DrawFn, made: Nesting, name: str) -> object:
    chosen = closure({draw(st.sampled_from(made.dims))})
    outer = tuple(each for each in made.dims if each in chosen)
    found = lengths(f"n{name}", *outer, maximum=MOST)
    count = len(list(made.reference.indices(outer)))
    made.lengths.append(found)
    made.entries[found.name] = np.array([draw(st.integers(0, MOST)) for _ in range(count)], np.int64)
    return found[outer]


def _affine(draw: st.DrawFn, made: Nesting, name: str) -> Dim:
    outer = draw(st.sampled_from(made.dims))
    try:
        return dim(name, draw(st.sampled_from([outer + 1, outer, 2 * outer + 1, outer.extent - outer, 3 - outer])))
    except UsageError:
        return dim(name, 2)
