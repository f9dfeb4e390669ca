"""`Kernel`: what lowering makes of a scheduled PrimFunc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm import tirx

    from deploykit.compiler.dims.expressions import IntExpr


@dataclass(frozen=True)
class Kernel:
    """A scheduled and lowered loop nest with the raw ABI: pointers first, then int64 scalars.

    `func` is a PrimFunc whose params are pointer variables (one a tensor of a launch, in order) followed by integer
    variables. Kernels shared by several launches occur once in `Program.kernels`.

    With `parallel_extent` set the kernel takes two more int64 at the end, `begin` and `end`: the part of its outer
    parallel loop of that extent that it is to run; `parallel_extent` is an expression over the kernel's scalars, and so
    is `effort`, an estimate of the whole kernel in the units of `deploykit.compiler.cost.effort`, 0 when there is none.
    """

    name: str
    func: tirx.PrimFunc
    parallel_extent: IntExpr | None = None
    effort: IntExpr = 0
    gpu: bool = False
    """Whether it is a shader: the loop's iterations are its invocations, its tensors lie on the device."""
    team: bool = False
    """Whether it is a shader of which a workgroup runs an iteration."""
