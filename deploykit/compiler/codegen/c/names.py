"""C identifiers for TIR variables: the TIR name where it is legal and free, a numbered one otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
from contextlib import contextmanager

_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long"
    " register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while"
    " asm bool class delete new private protected public template this throw try catch namespace operator typename"
    " main errno NULL INFINITY NAN"
    " abs acos acosf asin asinf atan atanf atan2 ceil ceilf cos cosf cosh erf erff exp expf exp2 fabs fabsf floor fma"
    " fmax fmin fmod gamma hypot index isfinite isinf isnan j0 j1 jn ldexp lgamma log log10 log2 log1p logb memcpy"
    " memmove memset nan nearbyint pow rint round signbit signgam sin sinf sinh sqrt sqrtf tan tanf tanh tgamma trunc"
    " y0 y1 yn".split()
)


class Scopes:
    """Names in nested C scopes. A name is unique among the scopes that are open; closed scopes free theirs."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._open: list[set[str]] = [set(_KEYWORDS | reserved)]

    def fresh(self, wanted: str) -> str:
        """A legal, unused identifier close to `wanted`."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "v"
        if base[0].isdigit():
            base = f"v{base}"
        name, number = base, 0
        while any(name in scope for scope in self._open):
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
