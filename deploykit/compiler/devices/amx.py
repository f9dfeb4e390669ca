"""The tile registers of AMX, and how products of matrices use them.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 18.
"""

from __future__ import annotations

ROWS = 16
"""The most rows of a register, which are those of sums and of left factors, and the groups of right factors."""

ROW_BYTES = 64
"""The bytes of a row of a register: 16 sums, 16 groups of left factors, or a group of right factors of 16 columns."""

KINDS = {"vdpbf16ps": "tdpbf16ps", "vpdpbusd": "tdpbusd"}
"""The instruction for tiles, by the dot product whose panels it takes."""

TALL = {1: 4, 2: 2}
"""The registers of sums below each other, by those beside each other. The four others are for factors."""
