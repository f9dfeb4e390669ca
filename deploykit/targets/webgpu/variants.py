"""What a package for the web is compiled for: WebAssembly with vectors, and shaders."""

from __future__ import annotations

from dataclasses import replace

from deploykit.compiler.devices.cpu import WASM_SIMD128
from deploykit.compiler.devices.gpu import WEBGPU
from deploykit.compiler.variant import Variant

WASM = Variant(WASM_SIMD128, vectorize=True, stack_limit=8 << 10)
"""Kernels through LLVM for WebAssembly, where any CPU that loads a module can run it."""

SHADERS = replace(WASM, cpu=WEBGPU.name, gpu=WEBGPU, layout=replace(WASM_SIMD128, transforms=False, dots=("widened",)))
"""Kernels as shaders, those that cannot be one as above. Weights lie as for WebAssembly, but where it has transformed
or grouped them for its instructions."""
