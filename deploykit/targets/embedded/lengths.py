"""Lengths for the example program of a model with ragged inputs, which runs at the upper bounds of the dims.

The values of a ragged input are divided evenly among the instances. If several extents of the instances are ragged, the
extents that no other input determines are 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any


def choose_lengths(inputs: Sequence[dict[str, Any]]) -> None:
    """Give each input, as a view of a template, `values`: for an input with lengths their sum, else None.

    The extents at the bounds of an input with several ragged extents become those that follow from the lengths.
    """
    ragged = [port for port in inputs if port["instance_at_bounds"] is not None]
    names = {extent for port in ragged for extent in port["instance_at_bounds"] if isinstance(extent, str)}
    lengths = {port["name"]: [1] * port["shape_at_bounds"][0] for port in inputs if port["name"] in names}
    flat = []
    for port in ragged:
        first, *others = port["instance_at_bounds"]
        if first in lengths and not any(extent in lengths for extent in others):
            lengths[first] = divided(port["shape_at_bounds"][0], len(lengths[first]))
        else:
            flat.append(port)
    for port in flat:
        columns = [lengths.get(extent, [extent]) for extent in port["instance_at_bounds"]]
        batch = max(map(len, columns))
        rows = zip(*(column if len(column) == batch else column * batch for column in columns), strict=True)
        port["shape_at_bounds"] = [sum(map(prod, rows))]
    for port in inputs:
        port["values"] = sum(lengths[port["name"]]) if port["name"] in lengths else None


def divided(total: int, parts: int) -> list[int]:
    """`total` divided into parts that differ by at most 1."""
    return [(part + 1) * total // parts - part * total // parts for part in range(parts)]
