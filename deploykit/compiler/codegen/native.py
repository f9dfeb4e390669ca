"""Kernels as one relocatable object through LLVM.

The object holds one function a kernel, `<prefix>_<kernel>`, position independent. Its undefined symbols are standard
functions of <math.h> and `memset`/`memcpy`; conversions of half precision come along as local functions. It has no
debug information and names no source file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import tvm
from tvm import tirx
from tvm.ir import IRModule
from tvm.target import Target

from deploykit.compiler.codegen import elf, native_rules
from deploykit.compiler.codegen.c_kernels import symbol
from deploykit.compiler.codegen.cpus import CPUS, Cpu, find_cpu, host_cpu

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deploykit.compiler.program.ir import Kernel

OPTIMISATION = 2
"""LLVM's level: kernels are vectorised and unrolled by their schedule; level 3 mostly makes them larger."""

__all__ = ["CPUS", "Cpu", "emit_object", "find_cpu", "host_cpu"]


def emit_object(kernels: Iterable[Kernel], prefix: str, cpu: Cpu) -> bytes:
    """The ELF object with all kernels."""
    target = _target(cpu)
    functions = {}
    for kernel in kernels:
        name = symbol(kernel, prefix)
        func = native_rules.prepare(kernel.func)
        functions[name] = func.with_attrs({"global_symbol": name, "calling_conv": 0, "target": target})
    module = tirx.transform.LowerIntrin()(IRModule(functions))
    built = tvm.get_global_func("target.build.llvm")(module, target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.o"
        built.write_to_file(str(path), "o")
        return elf.strip(path.read_bytes())


def _target(cpu: Cpu) -> Target:
    return Target(
        {
            "kind": "llvm",
            "mtriple": cpu.triple,
            "mcpu": cpu.mcpu,
            "mattr": list(cpu.features),
            "vector-width": cpu.vector_bits,
            "opt-level": OPTIMISATION,
        }
    )
