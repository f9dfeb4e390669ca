"""A shared library for this machine: native kernels through LLVM, host code in C, a thread pool.

lib<name>.so    everything below but the weights, linked
weights.bin     the constants; the caller loads or maps the file and passes its address
model.h         the interface of the model, deploykit.h the types, threads.h the pool
model.c deploykit.c threads.c kernels.o    what the library was linked from, to link it into a program instead
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit import runtime
from deploykit.errors import ToolchainError
from deploykit.targets.base import Availability, PackageOptions
from deploykit.toolchain import WARNINGS, Compiler, find_c_compiler

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program

C_FILES = ("model.c", "deploykit.c", "threads.c")


class HostTarget:
    name = "host"
    description = "a shared library for this machine, with native kernels and a thread pool"

    def check(self) -> Availability:
        try:
            compiler = find_c_compiler()
        except ToolchainError as error:
            return Availability(build=False, run=True, detail=str(error))
        return Availability(build=True, run=True, detail=f"{compiler.family}: {compiler.version}")

    def package(self, program: Program, folder: Path, options: PackageOptions) -> list[str]:
        from deploykit.compiler.codegen.cpus import find_cpu
        from deploykit.compiler.codegen.host_c import emit_host, prefix_of
        from deploykit.compiler.codegen.native import emit_object
        from deploykit.compiler.codegen.weights import write_weights

        compiler = find_c_compiler()
        prefix = prefix_of(program)
        library = f"lib{prefix}.so"
        for name, text in emit_host(program, options.version).items():
            (folder / name).write_text(text, encoding="utf-8")
        for source in (runtime.HEADER, runtime.CORE, runtime.THREADS_HEADER, runtime.THREADS):
            shutil.copyfile(source, folder / source.name)
        (folder / "kernels.o").write_bytes(emit_object(program.kernels, prefix, find_cpu(options.cpu)))
        write_weights(program, folder / "weights.bin")
        link(compiler, folder, folder / library)
        return [library, "weights.bin", "model.h", "deploykit.h", "threads.h", *C_FILES, "kernels.o"]

    def library(self, folder: Path, scratch: Path) -> Path:  # noqa: ARG002 - it is there already
        return next(folder.glob("lib*.so"))


def link(compiler: Compiler, folder: Path, library: Path) -> None:
    """Link the library from the C files and the kernels in `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        objects = [Path(scratch) / f"{name}.o" for name in C_FILES]
        for name, made in zip(C_FILES, objects, strict=True):
            compiler.compile(folder / name, made, *WARNINGS, "-O2", "-fPIC", "-pthread", f"-I{folder}")
        compiler.link_shared([*objects, folder / "kernels.o"], library)
