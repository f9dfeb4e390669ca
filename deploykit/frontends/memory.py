"""What decoders remember of the tokens that they have read: of each layer keys and values of all of them, or a state of
fixed size.

Memory is divided into pages. With keys and values of `PAGE` tokens each, states cost little more. Where there are
states alone, a page is for more tokens: it costs a state, and is where a text can be gone back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.model import Port
from deploykit.compiler.operators.pages import PAGE, shape_of

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

CARRIED_PAGE = 256
"""Tokens of a page that has states alone."""


@dataclass(frozen=True)
class Cached:
    """Keys and values of so many heads of this size."""

    heads: int
    size: int

    def ports(self, name: str, pages: IntExpr, dtype: str) -> list[Port]:
        """The states: the cache, and its scales if it has 8 bits."""
        ports = [Port(name, dtype, shape_of(pages, self.heads, self.size))]
        if dtype == "int8":
            ports.append(Port(scales_name(name), "float32", shape_of(pages, self.heads, 1)))
        return ports


@dataclass(frozen=True)
class Carried:
    """A state of this size (`operators.carried`)."""

    rows: int
    channels: int

    def ports(self, name: str, pages: IntExpr, _dtype: str) -> list[Port]:
        return [Port(name, "float32", (pages, self.rows, self.channels))]


Memory: TypeAlias = Mapping[str, Cached | Carried]
"""What there is by the names of states of the model."""


def cache_name(layer: int) -> str:
    """The state with the keys and values of a layer."""
    return f"cache_{layer}"


def scales_name(cache: str) -> str:
    """The state with the scales of a cache."""
    return f"{cache}_scales"


def taps_name(layer: int) -> str:
    """The state of the short convolution of a layer."""
    return f"taps_{layer}"


def scan_name(layer: int) -> str:
    """The state of the state space of a layer."""
    return f"scan_{layer}"


def carries(memory: Memory) -> bool:
    """Whether there are states: a sequence then cannot be cut in the middle of a page."""
    return any(isinstance(each, Carried) for each in memory.values())


def page_of(memory: Memory) -> int:
    """Tokens of a page."""
    return PAGE if any(isinstance(each, Cached) for each in memory.values()) else CARRIED_PAGE
