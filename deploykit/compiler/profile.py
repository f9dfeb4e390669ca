"""What a target asks of the compiler: which device to schedule for and what its kernels may look like."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deploykit.compiler.codegen.native.cpus import Cpu
from deploykit.compiler.devices.cpu import DEVICES, SCALAR_C, WASM_SIMD128, Device
from deploykit.compiler.lowering.lower import HOST_STACK_LIMIT, STACK_LIMIT
from deploykit.compiler.program.inplace import InPlace
from deploykit.compiler.schedules.gpu import WEBGPU, Gpu


@dataclass(frozen=True)
class Profile:
    """`vectorize`: kernels may hold vector operations; `stack_limit`: bytes of a buffer that may lie on the stack.
    `cpu`: the name of the CPU that kernels are compiled for, empty when they are C; `layout`: the device that decides
    how weights and intermediate results lie in memory, where it is another one. `gpu`: what runs the kernels that it
    can, the others are for `device`. `companions`: those of further programs of the same model in the same artifact.
    `in_place`: which results are computed over their operand's memory; other than by default it serves tests.
    """

    device: Device
    vectorize: bool
    stack_limit: int
    cpu: str = ""
    layout: Device | None = None
    gpu: Gpu | None = None
    companions: tuple[Profile, ...] = ()
    in_place: InPlace = InPlace.WHERE_FREE


PORTABLE_C = Profile(SCALAR_C, vectorize=False, stack_limit=STACK_LIMIT)
"""Kernels as C99 for any compiler."""


WASM = Profile(WASM_SIMD128, vectorize=True, stack_limit=8 << 10)
"""Kernels through LLVM for WebAssembly, where any CPU that loads a module can run it."""

_SHADERS = replace(WASM, cpu=WEBGPU.name, gpu=WEBGPU, layout=replace(WASM_SIMD128, transforms=False, dots=("widened",)))
"""Kernels as shaders, those that cannot be one as above. Weights lie as for WebAssembly, but where it has transformed
or grouped them for its instructions."""

WEB = replace(WASM, companions=(_SHADERS,))
"""The same, and with the same weights shaders for a GPU."""


def native(cpu: Cpu) -> Profile:
    """Kernels through LLVM for a CPU."""
    family = "arm64" if cpu.triple.startswith("aarch64") else "x86"
    able = [
        device
        for device in DEVICES.values()
        if device.name.startswith(family)
        and device.vector_bits <= cpu.vector_bits
        and all(f"+{feature}" in cpu.features for feature in device.features)
    ]
    best = max(able, key=lambda device: (device.vector_bits, len(device.features)))
    return Profile(best, vectorize=True, stack_limit=HOST_STACK_LIMIT, cpu=cpu.name)
