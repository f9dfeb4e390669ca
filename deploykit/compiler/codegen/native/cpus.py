"""The CPUs that native kernels are generated for, as data.

A CPU is written `NAME` or `NAME+FEATURE+...`: an architecture level, and the features of a CPU beyond it, in LLVM's
words, for example `armv8.2-a+dotprod`. `native` is the CPU of this machine. Names with commas between them stand for
several CPUs, and so does `portable`: kernels for each of them go into one artifact.

Triples do not name the GNU C library: for it, LLVM calls functions that are not standard C (`sincosf`, `exp10f`). That
for 32-bit Arm names another one, so that floats are passed in integer registers and copies are calls of `memcpy`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import tvm

from deploykit.errors import UsageError


@dataclass(frozen=True)
class VectorChoices:
    """Instructions on vectors of floats, by their LLVM names. `minimum(b, a)` and `maximum(b, a)` choose like C's
    `a < b ? a : b` and `a > b ? a : b`; `select` chooses each bit by a mask."""

    minimum: str
    maximum: str
    select: str


@dataclass(frozen=True)
class Cpu:
    """A CPU for LLVM. `mcpu` and `features` are in LLVM's spelling (`+avx2`); `vector_bits` is the width of the vector
    registers to use. `requires` are the features that the host code checks before it runs a kernel, names of `CHECKED`.

    The other fields describe LLVM's code for this CPU:

    * `halves`: it may convert float16, and compute in it;
    * `saturates`: one operation converts float32 to the nearest 32-bit integer in range;
    * `rounds`: the instruction that converts a vector of float32 to the nearest int32, ties to even, where LLVM would
      use two;
    * `offsets`: a load adds a constant to an address without wrapping around;
    * `narrows`: the instruction that halves the bits of the integers of a vector, where LLVM would split vectors into
      elements;
    * `extrema`: for float32 scalars, or for vectors, too (`all`), one operation gives a maximum or a minimum that is
      NaN if an operand is;
    * `choices`: the instructions to use for minima, maxima and choices of vectors, where LLVM may otherwise use
      instructions that give any result for NaN."""

    name: str
    triple: str
    mcpu: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    requires: tuple[str, ...] = ()
    halves: bool = True
    saturates: bool = False
    rounds: str | None = None
    offsets: bool = False
    narrows: str | None = None
    extrema: Literal["none", "scalars", "all"] = "none"
    choices: VectorChoices | None = None


_X86 = "x86_64-unknown-linux"
_ARM = "aarch64-unknown-linux"
_ARM32 = "armv7a-unknown-linux-musleabi"

_ROUNDS = "llvm.aarch64.neon.fcvtns"

_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
TILES = ("amx-tile", "amx-bf16", "amx-int8")
"""The features for tile registers, which a process must ask for. LLVM uses them where it is told alone."""
_AMX = ("avx512vnni", "avx512bf16", *TILES)

CHECKED = {
    _X86: frozenset(
        {
            *_V4,
            *("avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512ifma", "avx512bitalg", "avx512vpopcntdq"),
            *("avx512bf16", "avx512fp16", "avxvnni", "gfni", "vaes", "vpclmulqdq"),
            *TILES,
        }
    ),
    _ARM: frozenset({"dotprod", "fullfp16", "i8mm", "bf16", "sve"}),
}
"""By triple, the features that can be checked at run time: `DK_CPU_...` of `cpu.h`."""

CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("x86-64-v2", _X86, "x86-64-v2", (), 128, _V2, halves=False),
        Cpu("x86-64-v3", _X86, "x86-64-v3", (), 256, _V3),
        Cpu("x86-64-v4", _X86, "x86-64-v4", (), 512, _V4),
        Cpu("x86-64-amx", _X86, "x86-64-v4", tuple(f"+{feature}" for feature in _AMX), 512, (*_V4, *_AMX)),
        Cpu("armv8-a", _ARM, "generic", ("+neon",), 128, rounds=_ROUNDS, extrema="all"),
        Cpu("armv8.2-a", _ARM, "generic", ("+neon", "+v8.2a"), 128, rounds=_ROUNDS, extrema="all"),
    )
}

OTHERS = {"armv7-a": Cpu("armv7-a", _ARM32, "generic", ("+neon",), 128, halves=False, extrema="all")}
"""CPUs that targets build for beside others, and that users do not choose."""

PORTABLE = "portable"
PORTABLE_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
SHARED_LAYOUT = {"x86-64-v2": "x86-64-v3"}
"""Pairs of CPUs that share packed weights when an artifact has kernels for both: kernels for the first CPU take weights
packed for the second, which are stored once."""


def levels(name: str) -> tuple[str, ...]:
    """The CPUs that kernels are generated for when the user asks for `name`, or for several names with commas between
    them, the best first. Raises `UsageError` if they are not of one kind of machine."""
    given = [PORTABLE_LEVELS if each == PORTABLE else (each,) for each in name.split(",")]
    found = tuple(dict.fromkeys(level for each in given for level in each))
    if len(found) > 1 and len({machine_of(find_cpu(level)) for level in found}) > 1:
        raise UsageError(f"CPUs '{name}': one artifact has kernels for CPUs of one kind")
    return found


def machine_of(cpu: Cpu) -> str:
    """The kind of machine that a CPU belongs to, named as in `platform.machine`."""
    return cpu.triple.partition("-")[0]


def find_cpu(name: str) -> Cpu:
    """The CPU of that name. Raises `UsageError` for an unknown CPU or feature."""
    base, *extra = name.split("+")
    if base not in ("native", *CPUS, *OTHERS):
        raise UsageError(f"unknown CPU '{base}': choose one of native, {PORTABLE}, {', '.join(CPUS)}")
    cpu = host_cpu() if base == "native" else (CPUS | OTHERS)[base]
    known = CHECKED.get(cpu.triple, frozenset())
    for feature in extra:
        if feature not in known:
            raise UsageError(f"CPU '{name}': unknown feature '{feature}'; known are {', '.join(sorted(known))}")
    features = (*cpu.features, *(f"+{feature}" for feature in extra))
    return replace(cpu, name=name, features=features, requires=(*cpu.requires, *extra))


def host_cpu() -> Cpu:
    """The CPU of this machine, with exactly the features that it reports."""
    features = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    present = {name for name, on in features.items() if on}
    arch = tvm.get_global_func("tvm.codegen.llvm.GetProcessTriple")().split("-")[0]
    width = 512 if "avx512f" in present else 256 if "avx2" in present else 128
    triple = f"{arch}-unknown-linux"
    return Cpu(
        "native",
        triple,
        tvm.get_global_func("tvm.codegen.llvm.GetHostCPUName")(),
        tuple(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items())),
        width,
        tuple(sorted(present & CHECKED.get(triple, frozenset()))),
        rounds=_ROUNDS if arch == "aarch64" else None,
        extrema="all" if arch == "aarch64" else "none",
    )
