"""Kernels as one relocatable object through LLVM.

The object holds one function a kernel, `<prefix>_<kernel>`, position independent; its undefined symbols are functions
of the C library's math part and `memset`/`memcpy` only.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tvm
from tvm import tirx
from tvm.ir import IRModule
from tvm.target import Target

from deploykit.compiler.codegen.c_kernels import symbol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deploykit.compiler.program.ir import Kernel


@dataclass(frozen=True)
class Cpu:
    """What to generate code for. `features` in LLVM's spelling (`+avx2`); `vector_bits` is the preferred width."""

    name: str
    triple: str
    mcpu: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128


_LINUX_X86 = "x86_64-unknown-linux-gnu"
CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("x86-64-v2", _LINUX_X86, "x86-64-v2", (), 128),
        Cpu("x86-64-v3", _LINUX_X86, "x86-64-v3", (), 256),
        Cpu("x86-64-v4", _LINUX_X86, "x86-64-v4", (), 512),
        Cpu("arm64", "aarch64-unknown-linux-gnu", "generic", ("+neon",), 128),
    )
}


def target_of(cpu: Cpu) -> Target:
    return Target(
        {
            "kind": "llvm",
            "mtriple": cpu.triple,
            "mcpu": cpu.mcpu,
            "mattr": list(cpu.features),
            "vector-width": cpu.vector_bits,
        }
    )


def emit_object(kernels: Iterable[Kernel], prefix: str, cpu: Cpu) -> bytes:
    """The ELF object with all kernels."""
    target = target_of(cpu)
    functions = {}
    for kernel in kernels:
        name = symbol(kernel, prefix)
        functions[name] = kernel.func.with_attrs({"global_symbol": name, "calling_conv": 0, "target": target})
    module = tirx.transform.LowerIntrin()(IRModule(functions))
    built = tvm.get_global_func("target.build.llvm")(module, target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.o"
        built.write_to_file(str(path), "o")
        return path.read_bytes()
