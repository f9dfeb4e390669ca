"""The variants in a package for the web: WebAssembly with vectors, and shaders."""

from __future__ import annotations

from dataclasses import replace

from deploykit.compiler.variant import Variant, layout_for
from deploykit.targets.webgpu.devices import WASM_SIMD128, WEBGPU

WASM = Variant(WASM_SIMD128, vectorize=True, stack_limit=8 << 10)
"""Kernels through LLVM for WebAssembly. The same module runs on any CPU."""

SHADERS = replace(WASM, gpu=WEBGPU, layout=layout_for(WEBGPU, WASM_SIMD128))
"""Kernels as shaders; kernels that cannot be shaders are as in `WASM`. Weights have the same layout as for WebAssembly,
except those that it groups for its instructions."""
