"""What a shader may rely on. It is data, like `devices.cpu` for CPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One class of GPU.

    `language` is that of its shaders. `dtypes` are those that tensors may have; `vectors` those that vectors may have,
    of `lanes` elements each. `workgroup` is the number of invocations of a workgroup. `groups` is the most workgroups
    along one axis of a grid; more are folded into a second axis. `bindings` is the most tensors of a shader;
    `binding_bytes` is the most bytes of one, a multiple of `alignment`. `alignment` is that of the start of a tensor,
    in bytes. It is also the size of a shader's uniform data: `scalars` sizes and the number of invocations fit in it.
    `stack_limit` is the most bytes of local memory of an invocation. `dots` are the ways to compute products of 8-bit
    integers, best first, as in `devices.cpu`.
    """

    name: str
    language: str
    dtypes: frozenset[str]
    vectors: tuple[str, ...]
    lanes: int
    workgroup: int
    groups: int
    bindings: int
    binding_bytes: int
    alignment: int
    scalars: int
    stack_limit: int
    dots: tuple[str, ...]


NATIVE_GPU = Gpu(
    "gpu",
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
    scalars=31,
    stack_limit=4096,
    dots=("packed_4x8", "widened"),
)
"""What GPUs of phones and computers have under Vulkan 1.1 and OpenCL 1.2. The scalars are those that fit in Vulkan's
push constants with the number of invocations (Khronos, "Vulkan", required limits)."""
