"""The range that a user gives for a dim: `batch=1..64` (bounds), `seq=128` (fixed), `n=1..` (no maximum), `n=..8`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploykit.basics.sizes import whole
from deploykit.errors import UsageError

LARGEST = 2**63 - 1
"""The largest int64."""
_RANGE = re.compile(r"(?P<fixed>\d+)|(?P<minimum>\d*)\.\.(?P<maximum>\d*)", re.ASCII)
_HOW = "write NAME=MIN..MAX (batch=1..64), NAME=VALUE (seq=128) or NAME=MIN.. (n=1..)"


@dataclass(frozen=True)
class DimRange:
    """The values that a symbolic dim may take, both ends included. `maximum` is None if there is no maximum.

    Raises:
        UsageError: the range is empty, negative, or beyond int64.
    """

    name: str
    minimum: int = 1
    maximum: int | None = None

    def __post_init__(self) -> None:
        if self.minimum < 0:
            raise UsageError(f"dim '{self.name}': the minimum {self.minimum} is negative; a dim counts elements")
        if self.maximum is not None and self.maximum < self.minimum:
            raise UsageError(
                f"dim '{self.name}': the maximum {self.maximum} is below the minimum {self.minimum}; {_HOW}"
            )
        if max(self.minimum, self.maximum or 0) > LARGEST:
            raise UsageError(f"dim '{self.name}': a bound is beyond the largest int64, {LARGEST}")

    def __str__(self) -> str:
        if self.minimum == self.maximum:
            return f"{self.name}={self.minimum}"
        return f"{self.name}={self.minimum}..{'' if self.maximum is None else self.maximum}"


def checked_bounds(dims: Mapping[str, Any]) -> dict[str, int | tuple[int, int | None]]:
    """The sizes and bounds of dims that a caller gives in Python: integers, or pairs whose second part may be None.

    Raises:
        UsageError: something else is given, or a range is empty, negative, or beyond int64.
    """
    return {name: _bound(name, given) for name, given in dims.items()}


def _bound(name: str, given: Any) -> int | tuple[int, int | None]:
    if not isinstance(given, tuple | list):
        size = whole(name, given)
        return DimRange(name, size, size).minimum
    if len(given) != 2:
        raise UsageError(f"dim '{name}': give a size or a pair of bounds, found {given!r}")
    least, most = given
    bounds = DimRange(name, whole(name, least), None if most is None else whole(name, most))
    return bounds.minimum, bounds.maximum


def parse_dim(text: str) -> DimRange:
    """The range that `text` states; the default minimum is 1. As in ONNX, a dim's name may hold any character.

    Raises:
        UsageError: `text` is malformed, or its range is empty or negative.
    """
    name, separator, bounds = (part.strip() for part in text.rpartition("="))
    if not separator or not name:
        raise UsageError(f"cannot read the dim '{text}': {_HOW}")
    if re.match(r"-\d|\d*\.\.\s*-", bounds):
        raise UsageError(f"dim '{name}': the bound in '{text}' is negative; a dim counts elements; {_HOW}")
    match = _RANGE.fullmatch(re.sub(r"\s+", "", bounds) if ".." in bounds else bounds)
    if match is None or bounds == "..":
        raise UsageError(f"cannot read the bounds '{bounds}' of dim '{name}': {_HOW}")
    if match["fixed"]:
        return DimRange(name, int(match["fixed"]), int(match["fixed"]))
    minimum, maximum = match["minimum"], match["maximum"]
    return DimRange(name, int(minimum) if minimum else 1, int(maximum) if maximum else None)
