"""`Kernel`: the result of lowering a scheduled PrimFunc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm import tirx

    from deploykit.compiler.dims.expressions import IntExpr


@dataclass(frozen=True)
class Kernel:
    """A scheduled and lowered loop nest with the raw ABI: pointers first, then int64 scalars.

    `func` is a PrimFunc whose params are pointer variables, one per tensor of a launch in order, followed by integer
    variables. A kernel that several launches share occurs once in `Program.kernels`.

    `parallel_extent` is the extent of the outer parallel loop, an expression over the kernel's scalars. If it is set,
    the kernel takes two more int64 at the end, `begin` and `end`: the iterations of this loop that the call runs.
    `effort` is an estimate of the work of the whole kernel, an expression over the same scalars in the units of
    `deploykit.compiler.cost.effort`; 0 if there is none.
    """

    name: str
    func: tirx.PrimFunc
    parallel_extent: IntExpr | None = None
    effort: IntExpr = 0
    gpu: bool = False
    """Whether it is a shader. The iterations of the loop are then its invocations, and its tensors are on the
    device."""
    team: bool = False
    """Whether it is a shader in which a whole workgroup runs each iteration."""
