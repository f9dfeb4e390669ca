"""How users make dims and lengths."""

from __future__ import annotations

from deploykit.errors import UsageError
from deploykit.ragged.bounds import nonnegative, require_entries
from deploykit.ragged.indices import LONGEST, Dim, Index, IndexLike, Lengths, Size, as_index, require_closed


def dim(name: str, extent: IndexLike | None = None, *, minimum: int = 0, maximum: int | None = None) -> Dim:
    """A dim. Without an `extent`, the caller chooses one in `minimum..maximum` with the shapes of the inputs.

    Raises `UsageError` if the extent may be negative."""
    if extent is None:
        return Dim(name, Index(((Size(name, minimum, maximum), 1),)))
    if minimum or maximum is not None:
        raise UsageError(f"dim '{name}' has an extent, so its bounds follow: give the bounds of lengths instead")
    found = require_entries(as_index(extent))
    if not found.terms and found.constant < 1:
        raise UsageError(f"the extent of dim '{name}' is {found}; the least is 1")
    if not nonnegative(found):
        raise UsageError(f"the extent {found} of dim '{name}' may be negative")
    return Dim(name, found)


def lengths(name: str, *dims: Dim, maximum: int | None = None) -> Lengths:
    """Lengths that the caller gives as an int64 input. Raises `UsageError` for a maximum that is no length."""
    if not dims:
        raise UsageError(f"the lengths '{name}' need a dim: one length for each index of it")
    if maximum is not None and not 0 <= maximum <= LONGEST:
        raise UsageError(f"the maximum of the lengths '{name}' must be in 0..{LONGEST}, found {maximum}")
    require_closed(dims, f"the lengths '{name}'")
    return Lengths(name, dims, maximum)
