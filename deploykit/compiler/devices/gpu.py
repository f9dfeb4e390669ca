"""What a shader may count on: data, like `schedules.device` for CPUs."""

from __future__ import annotations

from dataclasses import dataclass

LANES = 4
"""Elements of a vector."""

VECTORS = ("float32", "float16", "int32", "uint32", "int8", "uint8", "bool")
"""What there are vectors of."""

WORKGROUP = 64
"""Invocations of a workgroup."""


SCALARS = 62
"""Sizes that a shader may take: with the number of its invocations they fit in 256 bytes of uniforms, the alignment
that suits every adapter. `DK_MAX_SCALARS` of driver.h."""


@dataclass(frozen=True)
class Gpu:
    """One class of GPU. `bindings`: of tensors in a shader; `binding_bytes`: what one holds, a multiple of `alignment`;
    `alignment`: bytes, of where a tensor begins; `dtypes`: those of the tensors."""

    name: str
    bindings: int
    binding_bytes: int
    alignment: int
    dtypes: frozenset[str]


WEBGPU = Gpu(
    "webgpu",
    bindings=8,
    binding_bytes=128 << 20,
    alignment=256,
    dtypes=frozenset(
        ("float32", "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    ),
)
"""The least that an adapter has: W3C, "WebGPU", section 3.6.2, default limits."""
