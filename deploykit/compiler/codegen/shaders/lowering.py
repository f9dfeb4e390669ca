"""Lowers a fused PrimFunc to shaders with the raw ABI, or says why that is not possible."""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx

from deploykit.compiler.codegen.shaders.errors import NoShader
from deploykit.compiler.codegen.shaders.language import Sharing
from deploykit.compiler.codegen.shaders.languages import language_of
from deploykit.compiler.decisions import Declined
from deploykit.compiler.lowering.lower import LoweredPart, LoweredParts, Workspace, lower
from deploykit.compiler.schedules.gpu import Divided, Gpu, divide


def shaders(func: tirx.PrimFunc, name: str, gpu: Gpu) -> LoweredParts | Declined:
    """`func` as shaders that the device's language can express, in tiles if possible, or the reason why there are
    none."""
    tiled = _attempt(func, name, gpu, None)
    return _attempt(func, name, gpu, tiled) if isinstance(tiled, Declined) else tiled


def _attempt(func: tirx.PrimFunc, name: str, gpu: Gpu, untiled: Declined | None) -> LoweredParts | Declined:
    """The shaders of `func`. They are built without tiles if `untiled` gives a reason against them."""
    divided = divide(func, gpu, untiled)
    if isinstance(divided, Declined):
        return divided
    try:
        lowered = lower_shaders(divided, name, gpu)
        _require_shaders(lowered, gpu)
    except NoShader as error:
        return Declined(str(error))
    return lowered


def _require_shaders(lowered: LoweredParts, gpu: Gpu) -> None:
    """Raises `NoShader` if a part cannot be a shader."""
    for part in lowered.parts:
        if part.kernel.workspaces:
            raise NoShader("it needs a large workspace for each invocation")
        if len(part.kernel.scalars) > gpu.scalars:
            raise NoShader(f"it takes {len(part.kernel.scalars)} sizes, more than {gpu.scalars}")
        language_of(gpu).emit(part.kernel.kernel, Sharing.apart(len(part.operands)), gpu)


def lower_shaders(divided: Divided, name: str, gpu: Gpu) -> LoweredParts:
    """Lower each part to a kernel of its own."""
    single = len(divided.parts) == 1
    parts = []
    for index, part in enumerate(divided.parts):
        lowered = lower(part.func, name if single else f"{name}_{index}", vectorize=True, stack_limit=gpu.stack_limit)
        shader = replace(lowered, kernel=replace(lowered.kernel, gpu=True, team=part.team))
        parts.append(LoweredPart(shader, part.operands, part.outputs))
    temporaries = tuple(Workspace(str(b.ty.dtype), tuple(b.ty.shape)) for b in divided.temporaries)
    return LoweredParts(temporaries, tuple(parts), divided.choices)
