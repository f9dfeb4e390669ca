"""How a user's values map to the tensors of the C interface: strings, sequences and optionals take several.

A *port* is one dense tensor of the C interface. A user's value takes these ports, one after another:

    tensor      one port
    string      two ports: a span for each string, then the bytes of all (see `strings`)
    sequence    the ports of its items; their number is fixed when the model is built
    optional    a boolean port that says whether the value is present, then the ports of its item
    nothing     no port: an optional that is absent in every run
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from deploykit.errors import ShapeError
from deploykit.sessions.strings import decode, encode

Kind: TypeAlias = Literal["tensor", "string", "sequence", "optional", "nothing"]


@dataclass(frozen=True)
class Structure:
    name: str
    kind: Kind
    items: tuple[Structure, ...] = ()


def parts(structure: Structure) -> Iterator[Structure]:
    """The tensors and the string tensors that make up a value, in order."""
    if structure.kind in ("tensor", "string"):
        yield structure
    for item in structure.items:
        yield from parts(item)


def assembled(structure: Structure, values: Iterator[np.ndarray]) -> Any:
    """Build the value of an input from the values of its `parts`."""
    match structure.kind:
        case "tensor" | "string":
            return next(values)
        case "sequence":
            return [assembled(item, values) for item in structure.items]
        case "optional":
            return assembled(structure.items[0], values)
        case "nothing":
            return None


def flattened(structure: Structure, value: Any) -> Iterator[tuple[str, np.ndarray | None]]:
    """Split an output into the named arrays of its `parts`; `None` for an optional that is absent."""
    if value is None or structure.kind in ("tensor", "string"):
        yield structure.name, value
    elif structure.kind == "sequence":
        for item, part in zip(structure.items, value, strict=True):
            yield from flattened(item, part)
    else:
        yield from flattened(structure.items[0], value)


def taken_apart(structure: Structure, value: Any) -> Iterator[Any]:
    """The values for the ports of an input, in order. Raises `ShapeError` for a value that does not fit."""
    name = structure.name
    match structure.kind:
        case "tensor":
            yield value
        case "string":
            array = np.asarray(value)
            try:
                yield from encode(array.astype(object) if array.dtype.kind in "US" or not array.size else array)
            except ShapeError as error:
                raise ShapeError(f"input '{name}': {error}") from error
        case "sequence":
            if not isinstance(value, list | tuple) or len(value) != len(structure.items):
                found = f"{len(value)} items" if isinstance(value, list | tuple) else type(value).__name__
                raise ShapeError(f"input '{name}' is a sequence of {len(structure.items)} items, found {found}")
            for item, part in zip(structure.items, value, strict=True):
                yield from taken_apart(item, part)
        case "optional" | "nothing":
            (present,) = structure.items or (None,)
            if (value is None) != (present is None):
                state = "absent" if present is None else "present"
                raise ShapeError(f"input '{name}' is an optional that was built as {state}; build it the other way")
            if present is not None:
                yield from taken_apart(present, value)


def put_together(structure: Structure, ports: Iterator[np.ndarray]) -> Any:
    """Build an output from its ports: an array, a list for a sequence, or `None` for an optional that is absent."""
    match structure.kind:
        case "tensor":
            return next(ports)
        case "string":
            return decode(next(ports), next(ports))
        case "sequence":
            return [put_together(item, ports) for item in structure.items]
        case "optional":
            present = bool(next(ports))
            item = put_together(structure.items[0], ports)
            return item if present else None
        case "nothing":
            return None
