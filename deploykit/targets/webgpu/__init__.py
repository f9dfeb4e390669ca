"""A folder for web pages and node: the model as WebAssembly with vectors, and the JavaScript that loads it.

index.mjs index.d.mts package.json   the package: `load`, with the types of this model; index.d.ts points to them
model.wasm model-relaxed.wasm        kernels, host code and the C runtime; the second where an engine has relaxed SIMD
weights/                             the constants, in pieces of at most 16 MiB
runtime/                             the modules that index.mjs consists of
demo.html README.md                  a page to try the model on, and how to use it
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.errors import ToolchainError, UsageError
from deploykit.targets.base import Availability, PackageOptions
from deploykit.targets.templates import render
from deploykit.targets.webgpu.linking import find_wasm_toolchain

if TYPE_CHECKING:
    from deploykit.compiler.codegen.cpus import Cpu
    from deploykit.compiler.profile import Profile
    from deploykit.compiler.program.ir import Program
    from deploykit.engines import Engine
    from deploykit.manifest import Manifest

SHARD_BYTES = 16 << 20

PAGES = ("index.mjs", "index.d.mts", "index.d.ts", "package.json", "demo.html", "README.md")

ARRAYS = {
    "float32": "Float32Array",
    "float64": "Float64Array",
    "float16": "Uint16Array",
    "bfloat16": "Uint16Array",
    "int64": "BigInt64Array",
    "int32": "Int32Array",
    "int16": "Int16Array",
    "int8": "Int8Array",
    "int4": "Int8Array",
    "int2": "Int8Array",
    "uint64": "BigUint64Array",
    "uint32": "Uint32Array",
    "uint16": "Uint16Array",
}
"""The typed array of a dtype in JavaScript; `Uint8Array` for the others."""


class WebTarget:
    name = "webgpu"
    description = "a package for web pages and node: WebAssembly with vectors, loaded by plain JavaScript"
    native = False

    def check(self) -> Availability:
        from deploykit.engines.node import find_node

        try:
            toolchain = find_wasm_toolchain()
        except ToolchainError as error:
            return Availability(build=False, run=False, detail=str(error))
        try:
            return Availability(build=True, run=True, detail=f"zig: {toolchain.version}; run in {find_node()}")
        except ToolchainError as error:
            return Availability(build=True, run=False, detail=str(error))

    def profile(self, cpu: str) -> Profile:  # noqa: ARG002 - a module is for every CPU
        from deploykit.compiler.profile import WASM

        return WASM

    def emit(self, program: Program, options: PackageOptions) -> dict[str, bytes]:
        from deploykit.compiler.codegen.cpus import WASM_RELAXED, WASM_SIMD
        from deploykit.compiler.codegen.host_c import emit_host

        emitted = {name: text.encode() for name, text in emit_host(program, options.version).items()}
        for name, cpu in (("model", WASM_SIMD), ("model-relaxed", WASM_RELAXED)):
            emitted |= _objects(program, name, cpu, fast_math=options.fast_math)
        return emitted

    def package(
        self, program: Program, emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        from deploykit.compiler.codegen.host_c import interface_view

        view = interface_view(program, options.version)
        names = [*_link(program, emitted, folder, view), *_write_weights(program, folder)]
        (folder / "runtime").mkdir()
        for source in runtime.JS_MODULES:
            shutil.copyfile(source, folder / "runtime" / source.name)
        view["module_bytes"] = (folder / "model.wasm").stat().st_size
        view["typed"] = _typed
        for name in PAGES:
            (folder / name).write_text(render(__name__, name, view), encoding="utf-8")
        return [*PAGES, *names, *(f"runtime/{source.name}" for source in runtime.JS_MODULES)]

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, threads: int, cpu: str | None) -> Engine:  # noqa: ARG002
        from deploykit.engines.node import Node

        if threads > 1 or cpu is not None:
            raise UsageError("an artifact for the web runs in node here, with one thread and no choice of kernels")
        return Node(folder, manifest)

    def sources(self, folder: Path) -> list[Path]:
        raise UsageError(f"{folder} is for the web: it can be neither sanitized nor profiled by C compilers")


def _objects(program: Program, name: str, cpu: Cpu, *, fast_math: bool) -> dict[str, bytes]:
    """The kernels for a module `name`, as files."""
    from deploykit.compiler.codegen.host_c import prefix_of
    from deploykit.compiler.codegen.native import emit_objects

    objects = emit_objects(program.kernels, prefix_of(program), cpu, fast_math=fast_math)
    return {f"{name}.{index}.o": data for index, data in enumerate(objects)}


def _link(program: Program, emitted: Mapping[str, bytes], folder: Path, view: Mapping[str, Any]) -> list[str]:
    """Link the modules; their names."""
    toolchain = find_wasm_toolchain()
    macros = {
        "DK_PREFIX": view["prefix"],
        "DK_INPUTS": len(program.inputs),
        "DK_OUTPUTS": len(program.outputs),
    }
    made: list[str] = []
    with tempfile.TemporaryDirectory(prefix="deploykit-") as scratch:
        place = Path(scratch)
        for name, data in emitted.items():
            (place / name).write_bytes(data)
        common = [place / "model.c", runtime.CORE, runtime.WASM_ENTRY, runtime.WASM_LIBC]
        for stem in ("model", "model-relaxed"):
            objects = [place / name for name in emitted if name.startswith(f"{stem}.") and name.endswith(".o")]
            toolchain.link([*common, *objects], folder / f"{stem}.wasm", place, macros)
            made.append(f"{stem}.wasm")
    return made


def _write_weights(program: Program, folder: Path) -> list[str]:
    """Write the constants in pieces; their names, in order."""
    from deploykit.compiler.codegen.weights import write_weights

    (folder / "weights").mkdir()
    names: list[str] = []
    with tempfile.TemporaryDirectory(prefix="deploykit-") as scratch:
        whole = Path(scratch) / "weights.bin"
        write_weights(program, whole)
        with whole.open("rb") as file:
            while data := file.read(SHARD_BYTES):
                names.append(f"weights/{len(names):03}.bin")
                (folder / names[-1]).write_bytes(data)
    return names


def _typed(port: Mapping[str, Any]) -> dict[str, str]:
    """How TypeScript sees a port: its array, and its shape as a tuple."""
    dtype = port["type"].partition("[")[0]
    extents = [str(axis["extent"]) if axis["dim"] == "DK_AXIS_FIXED" else "number" for axis in port["axes"]]
    return {"dtype": dtype, "array": ARRAYS.get(dtype, "Uint8Array"), "shape": f"[{', '.join(extents)}]"}
