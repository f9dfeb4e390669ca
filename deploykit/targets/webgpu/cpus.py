"""WebAssembly with vectors, as CPUs that native kernels are generated for."""

from __future__ import annotations

from dataclasses import replace

from deploykit.compiler.codegen.native.cpus import Cpu, VectorChoices

_FEATURES = ("+simd128", "+atomics", "+bulk-memory", "+mutable-globals", "+nontrapping-fptoint", "+sign-ext")

WASM_SIMD = Cpu(
    "wasm32",
    "wasm32-unknown-unknown",
    "generic",
    _FEATURES,
    halves=False,
    saturates=True,
    offsets=True,
    narrows="llvm.wasm.narrow.unsigned",
    extrema="scalars",
)
WASM_RELAXED = replace(
    WASM_SIMD,
    name="wasm32+relaxed-simd",
    features=(*_FEATURES, "+relaxed-simd"),
    choices=VectorChoices("llvm.wasm.pmin", "llvm.wasm.pmax", "llvm.wasm.bitselect"),
)
"""With relaxed SIMD: operations whose last bits are up to the engine, above all fused multiply-add."""
