"""The sizes that functions for the V extension of RISC-V take (`codegen.c.rvv`, `codegen.c.rvv_floats`), which has 32
vectors of 16 bytes or more. Eight of them together have 32 sums, which any number of columns fills in turn."""

from __future__ import annotations

PANEL = 32
"""The most columns of a panel of float32, and those of one of integers that are counted only in a run."""

ROWS = 3
"""The rows whose sums, with the factors of a panel of integers, fill the vectors."""

FLOAT_ROWS = 3
"""The rows whose sums, with the factors of a panel of float32, fill the vectors."""
