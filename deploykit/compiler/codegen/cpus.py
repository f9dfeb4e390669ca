"""The CPUs that native kernels are generated for, as data.

Triples name no C library: with a GNU one, LLVM calls functions that are not standard C (`sincosf`, `exp10f`).
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm

from deploykit.errors import UsageError


@dataclass(frozen=True)
class Cpu:
    """`mcpu` and `features` in LLVM's spelling (`+avx2`); `vector_bits` is the width of vector registers to use."""

    name: str
    triple: str
    mcpu: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128


_X86 = "x86_64-unknown-linux"

CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("x86-64-v2", _X86, "x86-64-v2", (), 128),
        Cpu("x86-64-v3", _X86, "x86-64-v3", (), 256),
        Cpu("x86-64-v4", _X86, "x86-64-v4", (), 512),
        Cpu("arm64", "aarch64-unknown-linux", "generic", ("+neon",), 128),
    )
}


def find_cpu(name: str) -> Cpu:
    """The CPU of that name; `native` is the CPU of this machine. Raises `UsageError` for any other."""
    if name == "native":
        return host_cpu()
    if name not in CPUS:
        raise UsageError(f"unknown CPU `{name}`: choose one of native, {', '.join(CPUS)}")
    return CPUS[name]


def host_cpu() -> Cpu:
    """The CPU of this machine, with exactly the features that it reports."""
    features = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    present = {name for name, on in features.items() if on}
    arch = tvm.get_global_func("tvm.codegen.llvm.GetProcessTriple")().split("-")[0]
    width = 512 if "avx512f" in present else 256 if "avx2" in present else 128
    return Cpu(
        "native",
        f"{arch}-unknown-linux",
        tvm.get_global_func("tvm.codegen.llvm.GetHostCPUName")(),
        tuple(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items())),
        width,
    )
