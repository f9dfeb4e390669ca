"""What weights can become, as data.

A kind is one row here and one form of the pass (`compiler/graph/quantize_weights.py`), which has the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deploykit.compiler.graph import quantize_weights
from deploykit.errors import UsageError


@dataclass(frozen=True)
class Kind:
    """`bits` are those of an element, without what elements share, such as steps. `beyond` says which numbers a weight
    of this kind cannot hold, and `instead` is the kind to try for them, if there is one. `grouped`:
    neighbouring numbers share a step, as language models have it."""

    name: quantize_weights.Kind
    bits: int
    beyond: str
    instead: quantize_weights.Kind | None = None
    grouped: bool = False


OUTSIDE = "rows that are no whole groups of 32 numbers, infinities, or NaN"

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("int8", 8, "infinities or NaN"),
        Kind("fp16", 16, "numbers beyond 65504, the largest one, or NaN", instead="int8"),
        Kind("q4", 4, OUTSIDE, instead="int8", grouped=True),
        Kind("q4_1", 4, OUTSIDE, instead="int8", grouped=True),
        Kind("q8", 8, OUTSIDE, instead="int8", grouped=True),
    )
}
"""The kinds by their names, in the order in which messages list them."""


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises `UsageError` if there is none."""
    if name not in KINDS:
        raise UsageError(f"weights cannot be '{name}'; there are {', '.join(KINDS)}")
    return KINDS[name]
