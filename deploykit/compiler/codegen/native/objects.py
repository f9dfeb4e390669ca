"""Compiles kernels to relocatable objects with LLVM.

An object holds one position-independent function per kernel, `<prefix>_<kernel>`. Its undefined symbols are standard
functions of <math.h>, and `memset` and `memcpy`; conversions of half precision are included as local functions. It has
no debug information and names no source file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import IRModule
from tvm.target import Target

from deploykit.basics.caches import kept
from deploykit.basics.parallel import each
from deploykit.basics.scratch import Scratch
from deploykit.compiler.codegen.c.kernels import symbol
from deploykit.compiler.codegen.native import choices, functions, local_values, pointers, rules
from deploykit.compiler.codegen.native.cpus import CPUS, Cpu, find_cpu, host_cpu
from deploykit.compiler.codegen.native.elf import join
from deploykit.compiler.tir import features

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from deploykit.compiler.lowering.kernel import Kernel

OPTIMISATION = 2
"""LLVM's optimisation level. Schedules vectorise and unroll kernels themselves; level 3 mostly makes them larger."""

PART = 8
"""The number of kernels that LLVM compiles together. Such parts are compiled in parallel."""

SCALARS_STAY = {"cl-opt": ["-vectorize-loops:bool=0"]}
"""Keeps LLVM from vectorising loops over scalars, whose choices could become relaxed instructions. The option holds for
the whole process while a part compiles, so parts are compiled one after the other."""

FEW_PARTS = 4
"""The least number of parts that a program is cut into, if it has as many kernels."""

__all__ = ["CPUS", "Cpu", "emit_object", "emit_objects", "find_cpu", "host_cpu", "join"]


def emit_object(kernels: Iterable[Kernel], prefix: str, cpu: Cpu, *, fast_math: bool = False) -> bytes:
    """The ELF object with all kernels. Its bytes do not depend on the number of threads that compile. `fast_math`:
    elementwise functions are those of the module `fast_math`."""
    return join(emit_objects(kernels, prefix, cpu, fast_math=fast_math))


def emit_objects(kernels: Iterable[Kernel], prefix: str, cpu: Cpu, *, fast_math: bool = False) -> list[bytes]:
    """One or more objects that together hold all kernels, in the format that linkers for the CPU take."""
    own = {symbol(kernel, prefix): features.resolved(kernel.func, cpu.features) for kernel in kernels}
    prepared = {name: rules.prepare(func, cpu, fast_math=fast_math) for name, func in own.items()}
    if cpu.choices is not None:
        by = cpu.choices
        prepared = {name: choices.chosen(func, by) for name, func in prepared.items()}
    if cpu.offsets:
        prepared = {name: pointers.viewed(func) for name, func in prepared.items()}
    if cpu.choices is not None:
        scalars = _target(cpu, **SCALARS_STAY)
        return [_compile(part, scalars) for part in _parts(prepared)]
    target = _target(cpu)
    return list(each(lambda part: _compile(part, target), _parts(prepared)))


def _parts(prepared: Mapping[str, tirx.PrimFunc]) -> list[dict[str, tirx.PrimFunc]]:
    """Groups of functions to compile together. In a group, the pointers of all functions may overlap or those of none
    may, because the code generator applies to all functions what the last one says."""
    parts: list[dict[str, tirx.PrimFunc]] = []
    for apart in (True, False):
        alike = [(name, func) for name, func in prepared.items() if bool(func.attrs.get("tirx.noalias")) == apart]
        count = max(1, min(len(alike), FEW_PARTS), len(alike) // PART)
        parts += [dict(alike[first::count]) for first in range(count) if alike]
    return parts or [{}]


def _compile(kernels: Mapping[str, tirx.PrimFunc], target: Target) -> bytes:
    """LLVM's object for kernels by symbol. Other Python threads can run meanwhile."""
    named = {
        name: functions.with_functions(local_values.stored(func)).with_attrs({"global_symbol": name})
        for name, func in kernels.items()
    }
    module = IRModule({name: func.with_attrs({"calling_conv": 0, "target": target}) for name, func in named.items()})

    def made() -> bytes:
        built = tvm.get_global_func("target.build.llvm")(tirx.transform.LowerIntrin()(module), target)
        with Scratch() as folder:
            path = Path(folder) / "kernels.o"
            built.write_to_file(str(path), "o")
            return path.read_bytes()

    # The hash has all bits of numbers, which texts may round.
    said = (f"{name} {tvm_ffi.structural_hash(func):x}\n{func.script()}" for name, func in named.items())
    llvm = tvm.get_global_func("target.llvm_version_major")()
    return kept((tvm.__version__, f"LLVM {llvm}", str(target), *said), made)


def _target(cpu: Cpu, **more: list[str]) -> Target:
    return Target(
        {
            "kind": "llvm",
            "mtriple": cpu.triple,
            "mcpu": cpu.mcpu,
            "mattr": list(cpu.features),
            "vector-width": cpu.vector_bits,
            "opt-level": OPTIMISATION,
            **more,
        }
    )
