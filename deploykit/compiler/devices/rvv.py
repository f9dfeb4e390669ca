"""The sizes that functions for the V extension of RISC-V take (`codegen.c.rvv`), which has 32 vectors of 16 bytes or
more. Eight of them together have 32 sums, which any number of columns fills in turn."""

from __future__ import annotations

PANEL = 32
"""The columns of a panel whose number of columns is known only in a run."""

ROWS = 3
"""The rows whose sums, with the factors of a panel, fill the vectors."""
