"""What a shader may count on: data, like `devices.cpu` for CPUs.

The package of a model gets what its JavaScript and its C need of this from here: `targets/webgpu/scripts.py` and
`linking.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One class of GPU.

    `language`: what its shaders are written in. `dtypes`: those of tensors. `vectors`: what there are vectors of, of
    `lanes` elements. `workgroup`: invocations of a workgroup; `groups`: workgroups along one axis of a grid, more of
    them are folded into a second axis. `bindings`: of tensors in a shader; `binding_bytes`: what one holds, a multiple
    of `alignment`. `alignment`: bytes, of where a tensor begins, or what a shader gets beside its tensors: `scalars`
    sizes, which with the number of its invocations fit in there. `stack_limit`: bytes that an invocation may keep to
    itself.
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
)
"""The least that an adapter has: W3C, "WebGPU", section 3.6.2, default limits."""
