"""What WebAssembly with vectors and WebGPU offer to kernels.

A package gets its JavaScript and C constants from here, too (`scripts.py`, `linking.py`).
"""

from __future__ import annotations

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.devices.gpu import Gpu

WASM_SIMD128 = Device(
    "wasm-simd128",
    vector_bits=128,
    vector_registers=16,
    l1_bytes=32 << 10,
    l2_bytes=256 << 10,
    scratch_bytes=256 << 10,
    parallel=True,
    dots=("relaxed_dot", "dot_i16x8"),
    halves=False,
    streams=4,
    loads_first=True,
    bf16="bf16_widened",
)

WEBGPU = Gpu(
    "webgpu",
    language="wgsl",
    dtypes=frozenset(
        ("float32", "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    ),
    vectors=("float32", "float16", "int32", "uint32", "int8", "uint8", "bool"),
    lanes=4,
    workgroup=64,
    groups=65535,
    bindings=8,
    binding_bytes=128 << 20,
    alignment=256,
    scalars=62,
    stack_limit=4096,
    dots=("packed_4x8", "widened"),
)
"""The minimum that every adapter supports: W3C, "WebGPU", section 3.6.2, default limits."""
