"""The kinds of CPU of Android devices (ABIs), and the kernels that a package holds for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tvm_ffi

from deploykit.compiler.codegen.native.cpus import Cpu, find_cpu
from deploykit.compiler.devices.cpu import ARM64
from deploykit.compiler.devices.gpu import GpuClass
from deploykit.compiler.variant import Variant, native, with_gpu

if TYPE_CHECKING:
    from deploykit.compiler.lowering.kernel import Kernel
    from deploykit.compiler.program.ir import Program


MACOS, MACOS_VERSION = "macos", "11.0"
"""The first version of macOS that has Arm."""

JVM_MACHINES = ("x86_64", "aarch64")
"""The machines whose library a JVM can load in tests."""


@dataclass(frozen=True)
class Abi:
    """One ABI by its name in Android. `levels` are the CPUs that kernels are compiled for, the best first; every device
    of the ABI can run the last one. `features` are what LLVM must know of the ABI. C code is compiled for the target
    `triple` with `options`. `machine` is the name in `platform.machine`."""

    name: str
    machine: str
    levels: tuple[str, ...]
    triple: str
    options: tuple[str, ...]
    features: tuple[str, ...] = ()

    def cpu(self, level: str) -> Cpu:
        """The CPU of a level."""
        cpu = find_cpu(level)
        return replace(cpu, features=(*cpu.features, *self.features))

    def cpu_on_macos(self, level: str) -> Cpu:
        """The CPU of a level in a Mac, for tests on its JVM."""
        return replace(find_cpu(level), triple=f"{self.machine}-apple-macosx{MACOS_VERSION}.0")


_ARM64 = ("armv8.2-a+dotprod+fullfp16+i8mm", "armv8.2-a+dotprod+fullfp16", "armv8-a")

# Android keeps register x18 for itself. The triple of 64-bit Arm names no system, because for Android zig's compiler
# calls functions for atomic operations, which are not part of Android.
ABIS = {
    abi.name: abi
    for abi in (
        Abi(
            *("arm64-v8a", "aarch64", _ARM64),
            *("aarch64-linux-none", ("-mcpu=generic+reserve_x18",), ("+reserve-x18",)),
        ),
        Abi(
            *("armeabi-v7a", "arm", ("armv7-a",)),
            *("arm-linux-androideabi", ("-mcpu=generic+v7a+neon", "-mfloat-abi=softfp")),
        ),
        Abi(*("x86_64", "x86_64", ("x86-64-v2",)), *("x86_64-linux-android", ("-mcpu=x86_64_v2",))),
    )
}
"""The ABIs of devices in use, the most frequent first."""

_LEAST = "armv7-a"
"""A CPU whose kernels can be compiled for all others."""

PLAIN_DOTS = ("widened",)
"""How CPUs without an instruction of their own compute products of 8-bit integers. Those of emulators do, too: their
instruction needs weights in another order."""


def variants(abis: Sequence[Abi]) -> list[Variant]:
    """The variants of a model for all levels of `abis`.

    All have weights in the order of 64-bit Arm, so that a package holds them once. Only the weights of products of
    8-bit integers are there twice if a level has an instruction for them."""
    found = []
    for abi in abis:
        for level in abi.levels:
            variant = native(find_cpu(level))
            device = variant.device
            dots = device.dots if abi.machine == "aarch64" else PLAIN_DOTS
            layout = replace(ARM64, dots=dots)
            device = replace(device, dots=dots, group_dots=device.dots_of_groups)
            found.append(replace(variant, device=device, layout=layout))
    return found


def on_gpu(kind: GpuClass) -> Variant:
    """The variant for GPUs of a class. Its program is the same for all ABIs, so its further kernels are for the least
    of their CPUs."""
    return with_gpu(native(find_cpu(_LEAST)), kind, layout=ARM64)


def by_abi(programs: Sequence[Program], abis: Sequence[Abi]) -> dict[str, list[Program]]:
    """The programs of each ABI, the best first. A level is left out if no kernel needs more than the level below."""
    found: dict[str, list[Program]] = {}
    for abi in abis:
        kept: list[Program] = []
        for program in reversed([program for program in programs if program.cpu in abi.levels]):
            if not kept or not _alike(program, kept[0]):
                kept.insert(0, program)
        found[abi.name] = kept
    return found


def _alike(better: Program, other: Program) -> bool:
    """Whether both programs have the same kernels, and the better CPU computes none of them in another way."""
    if _computes_halves(better) != _computes_halves(other) and any(map(_has_halves, better.kernels)):
        return False
    return len(better.kernels) == len(other.kernels) and all(
        tvm_ffi.structural_equal(one.func, another.func, map_free_vars=True)
        for one, another in zip(better.kernels, other.kernels, strict=True)
    )


def _has_halves(kernel: Kernel) -> bool:
    return "float16" in kernel.func.script()


def _computes_halves(program: Program) -> bool:
    """Whether the CPU has arithmetic in float16."""
    return "fullfp16" in find_cpu(program.cpu).requires
