"""What a target asks of the compiler for one program: the device to schedule for, and the form of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from deploykit.compiler.codegen.native.cpus import SHARED_LAYOUT, Cpu, find_cpu, levels, machine_of
from deploykit.compiler.devices.cpu import DEVICES, SCALAR_C, Device, TransformKernels
from deploykit.compiler.devices.gpu import NATIVE_GPU, USUAL, Gpu, GpuClass
from deploykit.compiler.lowering.lower import HOST_STACK_LIMIT, STACK_LIMIT
from deploykit.compiler.program.inplace import InPlace


@dataclass(frozen=True)
class Variant:
    """`vectorize`: kernels may have vector operations. `stack_limit`: the most bytes of a buffer on the stack. `cpu`:
    the name of the CPU that kernels are compiled for, empty if they are C. `layout`: the device that decides the layout
    of weights and intermediate results in memory, if it is not `device`. `gpu`: what runs the kernels that it can run;
    the others are for `device`. `in_place`: which results are computed over their operand's memory; other values than
    the default are for tests.
    """

    device: Device
    vectorize: bool
    stack_limit: int
    cpu: str = ""
    layout: Device | None = None
    gpu: Gpu | None = None
    in_place: InPlace = InPlace.WHERE_FREE

    @property
    def name(self) -> str:
        """The name that distinguishes it from the other variants of an artifact."""
        return self.gpu.name if self.gpu else self.cpu or self.device.name


PORTABLE_C = Variant(SCALAR_C, vectorize=False, stack_limit=STACK_LIMIT)
"""Kernels as C99 for any compiler."""


_FAMILIES = {"x86_64": "x86", "aarch64": "arm64", "armv7a": "armv7"}
"""How the names of devices begin, by the machine of a CPU."""


def native(cpu: Cpu) -> Variant:
    """The variant with kernels compiled by LLVM for a CPU."""
    family = _FAMILIES[machine_of(cpu)]
    able = [
        device
        for device in DEVICES.values()
        if device.name.startswith(family)
        and device.vector_bits <= cpu.vector_bits
        and all(f"+{feature}" in cpu.features for feature in device.features)
    ]
    best = max(able, key=lambda device: (device.vector_bits, len(device.features)))
    return Variant(best, vectorize=True, stack_limit=HOST_STACK_LIMIT, cpu=cpu.name)


def with_gpu(variant: Variant, kind: GpuClass = USUAL, layout: Device | None = None) -> Variant:
    """The variant whose kernels are for a class of GPUs of native machines; those that cannot be are as in `variant`.
    Weights have the layout for `layout`, by default that of `variant`, except those that are grouped for instructions
    of CPUs."""
    gpu = replace(NATIVE_GPU, kind=kind)
    return replace(variant, gpu=gpu, layout=layout_for(gpu, layout or variant.device))


def layout_for(gpu: Gpu, device: Device) -> Device:
    """The device that decides the layout in memory for a GPU, so that weights can be shared with kernels for
    `device`."""
    limits = TransformKernels(gpu.kind.winograd_channels, gpu.bindings, gpu.binding_bytes)
    return replace(device, transform_kernels=limits, dots=gpu.dots, group_dots=(), bf16="")


def native_levels(name: str) -> list[Variant]:
    """The variants for the CPUs that a name stands for, the best first. Raises `UsageError` for an unknown name."""
    variants = {level: native(find_cpu(level)) for level in levels(name)}
    for level, other in SHARED_LAYOUT.items():
        if level in variants and other in variants:
            variants[level] = replace(variants[level], layout=variants[other].device)
    return list(variants.values())
