"""What a shader may rely on, and how much an invocation computes. It is data, like `devices.cpu` for CPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TileSizes:
    """The sizes that a tile may have, the best first. `rows`: the first one that divides the rows of a result is used;
    if there is none, tiles have about as many rows as the first. `widths` are the numbers of columns; the first one is
    used that divides the columns of a result, and whose vectors are vectors in memory."""

    rows: tuple[int, ...]
    widths: tuple[int, ...]


_SMALL = TileSizes((4, 7, 5, 6, 3, 2), (8, 4))
_SQUARE = TileSizes((8, 7, 6, 5, 4, 3, 2), (8, 4))


@dataclass(frozen=True)
class GpuClass:
    """How work is divided among the invocations of a class of GPUs. Every class computes the same sums in the same
    order, except that teams may divide other sums among them.

    `products` are the tiles of sums of products in which one factor is the same for all columns of a tile, and one for
    all rows; `others` are those of other reductions, such as convolutions of single channels. With fewer tiles than
    `few_tiles`, a team computes a tile whose sums have at least `long_sum` terms. Attention with up to `few_queries`
    query rows has a team for each row. Convolutions of 3 by 3 with at least `winograd_channels` input and output
    channels may use Winograd's method.
    """

    name: str
    products: TileSizes = _SMALL
    others: TileSizes = _SMALL
    few_tiles: int = 512
    long_sum: int = 256
    few_queries: int = 16
    winograd_channels: int = 32


CLASSES = {
    kind.name: kind
    for kind in (
        GpuClass("mobile"),
        GpuClass("integrated"),
        GpuClass("discrete", products=_SQUARE, few_tiles=4096),
        GpuClass(
            "software",
            products=TileSizes((8, 7, 6, 5, 4, 3, 2), (16, 8, 4)),
            others=TileSizes((8, 7, 6, 5, 4, 3, 2), (4,)),
            few_tiles=64,
            winograd_channels=16,
        ),
    )
}
"""The classes, by name. A tile of 4 by 8 has 32 sums and fits the 64 registers that an invocation has on Arm's GPUs;
one of 8 by 8 does not. Integrated GPUs have hardly more where as many invocations run at a time as can. Graphics cards
have up to 255 registers, and take thousands of invocations to keep busy. Software runs invocations as the lanes of a
CPU's vectors and loads for one lane after the other, so that a load costs as much as hundreds of sums (Mesa,
`lp_bld_nir_soa.c`); a few workgroups keep its threads busy."""

USUAL = CLASSES["mobile"]
"""The class of a build that names none: its tiles need the fewest registers."""


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU, and the class that schedules are for.

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
    kind: GpuClass = USUAL


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
