"""What a shader may count on: data, like `schedules.device` for CPUs."""

from __future__ import annotations

from dataclasses import dataclass

LANES = 4
"""Elements of a vector."""

WORKGROUP = 64
"""Invocations of a workgroup."""


@dataclass(frozen=True)
class Gpu:
    """One class of GPU. `bindings`: tensors that a shader may touch; `alignment`: bytes, of where a tensor begins;
    `dtypes`: those of the tensors."""

    name: str
    bindings: int
    alignment: int
    dtypes: frozenset[str]


WEBGPU = Gpu(
    "webgpu",
    bindings=8,
    alignment=256,
    dtypes=frozenset(
        ("float32", "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    ),
)
"""The least that an adapter has: W3C, "WebGPU", section 3.6.2, default limits."""
