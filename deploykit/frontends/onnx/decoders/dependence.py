"""What the values of a decoder depend on, and which of them a step needs.

    WORDS      ids of tokens
    MEMORY     keys and values of earlier steps
    POSITIONS  positions of tokens
    READ       how much was read before: the mask, and the size of what is remembered
    SIZES      the number of tokens of the step

A value that depends on none of the first two is the same for all texts: a *place value* (`places`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto

import onnx_ir as ir

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.frontends.onnx.decoders.graph import Decoder, read_by


class On(Flag):
    NOTHING = 0
    WORDS = auto()
    MEMORY = auto()
    POSITIONS = auto()
    READ = auto()
    SIZES = auto()


SHAPES: Mapping[str, range] = {
    name: range(1, 5) for name in ("Reshape", "Expand", "Slice", "Split", "Squeeze", "Tile", "Unsqueeze")
}
"""Operands that are shapes or places in them, by operators."""


def dependences(decoder: Decoder, attended: Collection[ir.Value]) -> dict[ir.Value, On]:
    """What each value depends on. `attended` are the results of attention, which count as words."""
    found = dict.fromkeys(decoder.positions, On.POSITIONS) | {decoder.ids: On.WORDS}
    found |= {value: On.MEMORY for past in decoder.pasts for value in (past.key, past.value)}
    if decoder.mask is not None:
        found[decoder.mask] = On.READ
    for node in decoder.nodes:
        on = On.NOTHING
        for value in read_by(node):
            on |= found.get(value, On.NOTHING)
        if node.op_type in ("Shape", "Size"):
            on = _of_size(on)
        found |= {value: On.WORDS if value in attended else on for value in node.outputs}
    return found


def _of_size(on: On) -> On:
    if on & (On.MEMORY | On.READ):
        return On.READ
    return On.SIZES if on else On.NOTHING


@dataclass
class Needed:
    """The nodes that a step runs, and the place values that they read."""

    nodes: set[ir.Node] = field(default_factory=set)
    places: dict[ir.Value, None] = field(default_factory=dict)


def needed(
    decoder: Decoder, depends: Mapping[ir.Value, On], attended: Mapping[ir.Value, Iterable[ir.Value | None]]
) -> Needed:
    """What a step needs for its scores. `attended` are the results of attention, with what attention reads.

    Raises `Unsupported` for an operator that uses what is remembered in another way."""
    found = Needed()
    within = set(decoder.nodes)
    waiting: list[ir.Value] = [decoder.logits]
    if On.WORDS not in depends.get(decoder.logits, On.NOTHING):
        raise Unsupported(f"'{decoder.logits.name}' does not depend on '{decoder.ids.name}'")
    while waiting:
        node = waiting.pop().producer()
        if node is None or node not in within or node in found.nodes:
            continue
        found.nodes.add(node)
        reads = next((tuple(attended[value]) for value in node.outputs if value in attended), None)
        counts = all(depends.get(value) == On.SIZES for value in node.outputs)
        for position, value in enumerate(node.inputs if reads is None else reads):
            if value is None:
                continue
            on = depends.get(value, On.NOTHING)
            if On.MEMORY in on:
                raise Unsupported(f"{called(node)} reads '{value.name}', which holds earlier keys or values")
            shape = reads is None and position in SHAPES.get(node.op_type, ())
            if shape and On.READ in on:
                raise Unsupported(f"the shape that {called(node)} makes depends on how much was read before")
            if not on or On.WORDS in on or shape or counts:
                waiting.append(value)
            else:
                found.places[value] = None
    return found


def called(node: ir.Node) -> str:
    """A node in messages."""
    return f"{node.op_type} '{node.name or next((v.name for v in node.outputs if v.name), '')}'"
