"""C identifiers for TIR variables: the TIR name if it is legal and unused, else a numbered one."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.host.identifiers import apart, means_something

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FUNCTIONS = ("memcpy", "memmove", "memset", "abs")


class Scopes:
    """Names in nested C scopes. A name is unique among the open scopes; closing a scope frees its names.

    `reserved` are the names of functions that the text may call.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._open: list[set[str]] = [{*_FUNCTIONS, *reserved}]

    def fresh(self, wanted: str) -> str:
        """A legal, unused identifier close to `wanted`."""
        base = apart(legal_name(wanted))
        name, number = base, 0
        while means_something(name) or any(name in scope for scope in self._open):
            number += 1
            name = f"{base}_{number}"
        self._open[-1].add(name)
        return name

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Names given inside are free again afterwards."""
        self._open.append(set())
        yield
        self._open.pop()


def legal_name(wanted: str) -> str:
    """`wanted`, with every character that C does not allow in an identifier replaced by `_`."""
    name = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "v"
    return f"v{name}" if name[0].isdigit() else name
