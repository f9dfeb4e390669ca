"""The sizes that functions for Helium take (`codegen.c.helium`, `codegen.c.helium_floats`), which has eight vectors of
16 bytes."""

from __future__ import annotations

WIDTH = 4
"""The columns of a panel of 8-bit integers."""

GROUP = 16
"""The terms of a column that are next to each other in such a panel: the bytes of a vector."""

FLOAT_WIDTH = 8
"""The columns of a panel of float32."""

OUTPUTS = 3
"""The rows whose sums, with the factors of a panel of float32, fill the vectors."""
