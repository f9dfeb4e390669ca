"""Checks a size that a caller gives for a dim in Python."""

from __future__ import annotations

import operator
from typing import Any

from deploykit.errors import UsageError


def whole(name: str, given: Any) -> int:
    """`given` as an int. Raises `UsageError`, with the `name` of the dim, if it is not an integer."""
    try:
        return operator.index(given)
    except TypeError:
        raise UsageError(f"dim '{name}': a size is an integer, found {given!r}") from None
