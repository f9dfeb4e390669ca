"""`Techniques`: what the compiler of a dynamic model does to make its batches large and its launches few.

All are on. Without one of them a model computes the same, in more time: tests compare the results, and
`python -m bench.dynamic --ablation` the times.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Techniques:
    coarsening: bool = True
    """Operators between two places where control flow needs values are one cell. Otherwise each operator is a cell."""
    joining: bool = True
    """Operators of a cell that can run as one do (`layout`), such as the products of an LSTM's gates."""
    hoisting: bool = True
    """Products that do not depend on what a loop or a recursion computes are cells of their own, all of whose nodes are
    ready at once."""
    tables: bool = True
    """A cell that takes nothing but the number of a row is computed for all rows when the model is built."""
    gathering: bool = True
    """Elementwise kernels, and products of matrices, read their operands where they are. Otherwise a kernel copies the
    rows of each operand."""
    sharing: bool = True
    """Nodes of a cell with large results that have the same operand are one node."""


ALL = Techniques()
