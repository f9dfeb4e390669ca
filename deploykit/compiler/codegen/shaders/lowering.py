"""From a fused PrimFunc to shaders with the raw ABI, or why there are none."""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from deploykit.compiler.codegen.shaders.wgsl.shader import Sharing, emit_wgsl
from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.gpu import SCALARS
from deploykit.compiler.lowering.lower import LoweredPart, LoweredParts, Workspace, lower
from deploykit.compiler.schedules.gpu import Divided, Gpu, divide

STACK_LIMIT = 4096
"""Bytes: what an invocation may keep to itself."""


def shaders(func: tirx.PrimFunc, name: str, gpu: Gpu) -> LoweredParts | Declined:
    """`func` as shaders that are known to have WGSL, in tiles where these have, or why there are none."""
    tiled = _attempt(func, name, gpu, None)
    return _attempt(func, name, gpu, tiled) if isinstance(tiled, Declined) else tiled


def _attempt(func: tirx.PrimFunc, name: str, gpu: Gpu, untiled: Declined | None) -> LoweredParts | Declined:
    """The shaders, without tiles where there is a reason."""
    divided = divide(func, gpu, untiled)
    if isinstance(divided, Declined):
        return divided
    try:
        lowered = lower_shaders(divided, name)
        _require_wgsl(lowered)
    except ValueError as error:
        return Declined(str(error))
    return lowered


def _require_wgsl(lowered: LoweredParts) -> None:
    """Raises `ValueError` for a part that has none."""
    for part in lowered.parts:
        if part.kernel.workspaces:
            raise ValueError("it needs a large workspace for each invocation")
        if len(part.kernel.scalars) > SCALARS:
            raise ValueError(f"it takes {len(part.kernel.scalars)} sizes, more than {SCALARS}")
        count = len(part.operands)
        emit_wgsl(part.kernel.kernel, Sharing(tuple(range(count)), (True,) * count, ((),) * count))


def lower_shaders(divided: Divided, name: str) -> LoweredParts:
    """Each part as a kernel of its own."""
    single = len(divided.parts) == 1
    parts = []
    for index, part in enumerate(divided.parts):
        lowered = lower(part.func, name if single else f"{name}_{index}", vectorize=True, stack_limit=STACK_LIMIT)
        shader = replace(lowered, kernel=replace(lowered.kernel, gpu=True, team=part.team))
        parts.append(LoweredPart(shader, part.operands, part.outputs))
    temporaries = tuple(Workspace(str(b.ty.dtype), tuple(b.ty.shape)) for b in divided.temporaries)
    return LoweredParts(temporaries, tuple(parts), divided.choices)
