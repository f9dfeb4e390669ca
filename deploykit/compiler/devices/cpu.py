"""What a schedule needs to know about the CPU that runs a kernel. It is data, so that rules name no machines.

Sizes are per core, those of a typical member of the class. With a vector width of 0 bits, the code generator gets
scalar loops (portable C, which the C compiler may vectorise).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deploykit.compiler.devices.row_functions import RowFunctions


@dataclass(frozen=True)
class TransformKernels:
    """The limits of Winograd convolutions as several kernels: the least number of input and of output channels, the
    most bindings of a kernel, and the most bytes of one."""

    channels: int
    bindings: int
    binding_bytes: int


@dataclass(frozen=True)
class Device:
    """One class of CPU. `l1_bytes` and `l2_bytes` are the data caches per core. `scratch_bytes` is the limit for the
    constant-size local buffers of a kernel at a time. `parallel`: several threads may run outer loops.

    `dots` are the instructions for dot products of 8-bit integers (names of `dot.DOTS`), best first; the last one is
    exact for all factors. `transforms`: convolutions may use Winograd. With `transform_kernels`, they are several
    kernels then, as GPUs need them. `halves`: there are instructions for float16.
    `streams` is the number of concurrent streams that read memory fastest, if there is no prefetch instruction; 1 if
    there is one. `compact`: code is small where that costs some speed. `exact`: the sums of a row are in the same order
    however many rows there are. `features` are those that a CPU must have beyond its level, in LLVM's spelling.
    `group_tokens` are the most tokens of a group in which instances of a ragged batch are computed: enough for the
    products, few enough for the caches. `by_element`: a multiplication takes any element of a vector as the factor of
    all lanes, so that factors are loaded as vectors. `loads_first`: the loads of a step are done before its first
    product, whatever their order in the code. `widening` is an instruction that multiplies 16-bit integers to 32-bit
    ones (a name of `dot.WIDENING`), if that takes less than converting them. `matrices` is an instruction for products
    of 8-bit matrices (a name of `matrices.MATRICES`). `group_dots` are the instructions for products with weights in
    groups (names of `grouped.GROUP_DOTS`), if not `dots`: those weights have the same order in memory for all of them.
    `narrowed` is the number of vectors of 32-bit numbers that are best converted to 8 bits together. `fixed_point`:
    products of integers are requantised in integers. `bf16` is the instruction for products of bfloat16 (a name of
    `dot.DOTS`), empty where products are in float32. `float_sums`: the sums of float32 that fit the registers beside
    their factors, on a machine without vectors for which they are written out one by one; 0 where a C compiler arranges
    them. `row_functions`: those that kernels in C call. `amx`: there are tile registers for products of narrow factors.
    """

    name: str
    vector_bits: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    scratch_bytes: int
    parallel: bool
    dots: tuple[str, ...] = ("widened",)
    transforms: bool = True
    transform_kernels: TransformKernels | None = None
    halves: bool = True
    streams: int = 1
    exact: bool = False
    compact: bool = False
    features: tuple[str, ...] = ()
    group_tokens: int = 512
    by_element: bool = False
    loads_first: bool = False
    widening: str | None = None
    matrices: str | None = None
    group_dots: tuple[str, ...] | None = None
    narrowed: int = 1
    fixed_point: bool = False
    bf16: str = ""
    float_sums: int = 0
    row_functions: RowFunctions | None = None
    amx: bool = False

    @property
    def dots_of_groups(self) -> tuple[str, ...]:
        """The instructions for products with weights in groups."""
        return self.dots if self.group_dots is None else self.group_dots

    @property
    def prefetches(self) -> bool:
        """Whether there is an instruction that prefetches."""
        return self.vector_bits > 0 and self.streams == 1

    def lanes(self, dtype_bits: int) -> int:
        """The elements of `dtype_bits` bits in one vector register; 1 on scalar devices."""
        return max(1, self.vector_bits // max(dtype_bits, 8))


SCALAR_C = Device(
    "scalar-c",
    vector_bits=0,
    vector_registers=16,
    l1_bytes=16 << 10,
    l2_bytes=0,
    scratch_bytes=512,
    parallel=False,
)
X86_64_V2 = Device(
    "x86-64-v2",
    vector_bits=128,
    vector_registers=16,
    l1_bytes=32 << 10,
    l2_bytes=256 << 10,
    scratch_bytes=256 << 10,
    parallel=True,
    dots=("pmaddubsw", "pmaddwd"),
    bf16="bf16_widened",
)
X86_64_V3 = Device(
    "x86-64-v3",
    vector_bits=256,
    vector_registers=16,
    l1_bytes=32 << 10,
    l2_bytes=512 << 10,
    scratch_bytes=256 << 10,
    parallel=True,
    dots=("pmaddubsw", "pmaddwd"),
    bf16="bf16_widened",
)
X86_64_V4 = Device(
    "x86-64-v4",
    vector_bits=512,
    vector_registers=32,
    l1_bytes=32 << 10,
    l2_bytes=1 << 20,
    scratch_bytes=256 << 10,
    parallel=True,
    dots=("pmaddubsw", "pmaddwd"),
    bf16="bf16_widened",
)
X86_64_V4_VNNI = replace(X86_64_V4, name="x86-64-v4-vnni", dots=("vpdpbusd", "pmaddwd"), features=("avx512vnni",))
X86_64_V4_BF16 = replace(X86_64_V4_VNNI, name="x86-64-v4-bf16", bf16="vdpbf16ps", features=("avx512vnni", "avx512bf16"))
X86_64_V4_AMX = replace(
    X86_64_V4_BF16,
    name="x86-64-v4-amx",
    amx=True,
    features=(*X86_64_V4_BF16.features, "amx-tile", "amx-bf16", "amx-int8"),
)
ARM64 = Device(
    "arm64",
    vector_bits=128,
    vector_registers=32,
    l1_bytes=64 << 10,
    l2_bytes=512 << 10,
    scratch_bytes=256 << 10,
    parallel=True,
    by_element=True,
    widening="smull",
    group_dots=("paired",),
    narrowed=2,
    bf16="bf16_widened",
)

ARM64_DOTPROD = replace(
    ARM64, name="arm64-dotprod", dots=("sdot", "widened"), features=("dotprod",), group_dots=("sdot", "paired")
)

ARM64_I8MM = replace(ARM64_DOTPROD, name="arm64-i8mm", matrices="smmla", features=("dotprod", "i8mm"))

ARMV7 = Device(
    "armv7",
    vector_bits=128,
    vector_registers=16,
    l1_bytes=32 << 10,
    l2_bytes=256 << 10,
    scratch_bytes=128 << 10,
    parallel=True,
    halves=False,
    group_dots=("paired",),
    bf16="bf16_widened",
)

DEVICES = {
    device.name: device
    for device in (
        *(SCALAR_C, X86_64_V2, X86_64_V3, X86_64_V4, X86_64_V4_VNNI, X86_64_V4_BF16, X86_64_V4_AMX),
        *(ARM64, ARM64_DOTPROD, ARM64_I8MM, ARMV7),
    )
}
"""The device classes of native kernels and of portable C, by name. Targets may have others."""
