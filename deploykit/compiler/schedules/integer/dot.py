"""Dot product instructions: sums of products of integers of 8 bits, or of 16 and 8 bits, or of bfloat16, one group of
neighbouring terms at a time.

A `Dot` takes a vector of int32 sums (float32 for bfloat16), for each lane a group of int8 right factors, and one group
of left factors that all lanes share:

    sums[lane] += left[0] * right[lane][0] + ... + left[group - 1] * right[lane][group - 1]

Left factors are stored as elements of dtype `left`; for that, `offset` is added to an 8-bit operand, depending on its
dtype. A dot whose left factors have 16 bits or more also takes an int16 operand, if it is not `narrow`. A `bounded` dot
saturates sums of two products to int16. It is exact if, in every pair of right factors, the positive and the negative
ones each add up to at most 128 in magnitude (`pairs_fit`).

The relaxed dot products of WebAssembly take one operand of 8 and one of 7 bits, 0 to 127. Their right factors are from
-64 to 63 in memory, and become 7 bits by the `lift` that is added when they are loaded; the sums begin with what that
adds. `saturating` gives the form for engines that saturate sums of two products, from their `relaxed_probe`. They are
those for x86 without VNNI, where the form takes fewer instructions, and where V8 11.3 overwrites an operand of the
other instruction. `otherwise` is the name of the dot product for CPUs without the feature `needs`, on the same panels.

`DOTS` has the instructions by name. The `Device` says which of them a machine has, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm import tirx

from deploykit.basics.mapped import pieces
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import repeated

PACKED_4X8 = "packed_4x8"
"""The dot product of GPUs: of words that four neighbouring factors already form in memory."""

QUADS = "dot_i16x8_quads"
"""The dot product of two terms, on panels for four (`quads`)."""

PAIR_LIMIT = 128
"""The limit for the sum of two right factors of the same sign: 255 * 128 is the greatest such product within int16."""


Apply: TypeAlias = Callable[[Expr, Expr, Expr, int], Expr]
"""How an instruction adds products to sums: `apply(sums, left, right, lanes)`."""


@dataclass(frozen=True)
class Dot:
    """A dot product instruction. `left` is the dtype of left factors; `spare` is the number of registers that a step
    needs in addition to sums and factors. `apply(sums, left, right, lanes)` gives the new sums; its `left` is the group
    repeated for all `lanes`."""

    name: str
    group: int
    left: str
    spare: int
    bounded: bool
    apply: Apply
    lift: int = 0
    saturating: Callable[[Expr], Apply] | None = None
    needs: str = ""
    otherwise: str = ""
    narrow: bool = False

    def offset(self, dtype: str) -> int:
        """The number to add to an operand of `dtype` so that it can be a left factor."""
        if self.left == "uint8" and dtype == "int8":
            return 128
        return -128 if self.left == "int8" and dtype == "uint8" else 0

    def reads(self, dtype: str) -> bool:
        """Whether elements of `dtype` can be left factors."""
        return dtype != "int16" or (self.left in ("int16", "int32") and not self.narrow)

    def takes(self, right: np.ndarray | None, neighbours: int | None) -> bool:
        """Whether the instruction can be used, with exact sums, for right factors `[..., K, N]` (`None`: for any right
        factors), and left factors of which each `neighbours` (`None`: any number) are next to each other. That of GPUs
        takes words of four left factors, and four columns."""
        if self.name == PACKED_4X8:
            fits = neighbours is not None and neighbours % self.group == 0
            return right is not None and right.shape[-1] % self.group == 0 and fits
        if self.lift:
            return right is not None and within(right, -self.lift, self.lift - 1)
        return not self.bounded or (right is not None and pairs_fit(right))


def pairs_fit(right: np.ndarray) -> bool:
    """Whether no sum of two products of right factors 2 k and 2 k + 1 with uint8 factors exceeds the range of int16."""
    if not right.size:
        return True
    if right.shape[-2] % 2:
        right = np.concatenate([right, np.zeros_like(right[..., :1, :])], axis=-2)
    for _, pairs in pieces(right.reshape(-1, 2, right.shape[-1])):
        terms = pairs.astype(np.int16)
        for sign in (np.clip(terms, 0, None), np.clip(-terms, 0, None)):
            if int((sign[:, 0] + sign[:, 1]).max()) > PAIR_LIMIT:
                return False
    return True


def within(right: np.ndarray, low: int, high: int) -> bool:
    """Whether all right factors are from `low` to `high`."""
    parts = (piece for _, piece in pieces(right.reshape(-1, right.shape[-1])) if piece.size)
    return all(low <= int(piece.min()) and int(piece.max()) <= high for piece in parts)


def dot_for(device: Device, left: str, right: np.ndarray | None, neighbours: int | None) -> Dot:
    """The best of the device's instructions that takes these factors; the left ones are elements of dtype `left`."""
    dots = (DOTS[name] for name in device.dots)
    return next(dot for dot in dots if dot.reads(left) and dot.takes(right, neighbours))


def _call(name: str, lanes: int, *operands: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", name, *operands)


_PAIR_SUMS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
_BYTE_PAIR_SUMS = {
    4: "llvm.x86.ssse3.pmadd.ub.sw.128",
    8: "llvm.x86.avx2.pmadd.ub.sw",
    16: "llvm.x86.avx512.pmaddubs.w.512",
}
_BYTE_QUADS = {width // 32: f"llvm.x86.avx512.vpdpbusd.{width}" for width in (128, 256, 512)}


def _dot_i16x8(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    return sums + _call("llvm.wasm.dot", lanes, left, right.astype(f"int16x{2 * lanes}"))


def _relaxed_dot(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    return _call("llvm.wasm.relaxed.dot.i8x16.i7x16.add.signed", lanes, left, right, sums)


def _relaxed_pairs(left: Expr, right: Expr, lanes: int) -> Expr:
    """Sums of two products in 16 bits."""
    return tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", "llvm.wasm.relaxed.dot.i8x16.i7x16.signed", left, right)


def sum_of_octets(octets: Expr) -> Expr:
    """The sums of four neighbouring int8 of a vector of WebAssembly."""
    name = "llvm.wasm.extadd.pairwise.signed"
    return tirx.call_llvm_pure_intrin("int32x4", name, tirx.call_llvm_pure_intrin("int16x8", name, octets))


def relaxed_probe() -> Expr:
    """Sums of two relaxed products whose second factors are beyond 7 bits. What they are is up to the engine: the
    greatest int16 where it saturates them. It only chooses between two forms with the same results."""
    greatest, beyond = (repeated(tirx.const(number, "int8"), 16) for number in (127, -1))
    return _relaxed_pairs(greatest, beyond, 4)


def _relaxed_by_pairs(probe: Expr) -> Apply:
    ones = probe >> repeated(tirx.const(14, "int16"), 8)  # a constant would be loaded again in each step of a loop

    def apply(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
        return sums + _call("llvm.wasm.dot", lanes, _relaxed_pairs(left, right, lanes), ones)

    return apply


def _pmaddwd(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    return sums + _call(_PAIR_SUMS[lanes], lanes, left, right.astype(f"int16x{2 * lanes}"))


def _pmaddubsw(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    words = f"int16x{2 * lanes}"
    pairs = tirx.call_llvm_pure_intrin(words, _BYTE_PAIR_SUMS[lanes], left, right)
    ones = repeated(tirx.const(1, "int16"), 2 * lanes)
    return sums + _call(_PAIR_SUMS[lanes], lanes, pairs, ones)


def _vpdpbusd(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    return _call(_BYTE_QUADS[lanes], lanes, sums, left, right)


def _sdot(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    return _call("llvm.aarch64.neon.sdot", lanes, sums, right, left)  # the last factor may be an element of a vector


def _paired(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    words = f"int32x{2 * lanes}"
    products = left.astype(words) * right.astype(words)
    even, odd = (tirx.Shuffle([products], list(range(start, 2 * lanes, 2))) for start in range(2))
    return sums + even + odd


def _widened(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    return sums + left.astype(f"int32x{lanes}") * right.astype(f"int32x{lanes}")


def _vdpbf16ps(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    factors = (tirx.reinterpret(f"int32x{lanes}", factor) for factor in (left, right))
    return tirx.call_pure_extern(f"float32x{lanes}", f"vdpbf16ps_{32 * lanes}", sums, *factors)


def _bf16_widened(sums: Expr, left: Expr, right: Expr, lanes: int) -> Expr:
    bits = right.astype(f"uint32x{lanes}") << repeated(tirx.const(16, "uint32"), lanes)
    return sums + left * tirx.reinterpret(f"float32x{lanes}", bits)


def _only_on_gpus(_sums: Expr, _left: Expr, _right: Expr, _lanes: int) -> Expr:
    raise ValueError(f"a CPU has no {PACKED_4X8}")


def _smull(left: Expr, right: Expr) -> Expr:
    return _call("llvm.aarch64.neon.smull", 4, left, right)


def _by_functions(_sums: Expr, _left: Expr, _right: Expr, _lanes: int) -> Expr:
    raise ValueError("they are multiplied by functions in C")


WIDENING: Mapping[str, Callable[[Expr, Expr], Expr]] = {"smull": _smull}
"""Instructions that multiply registers of four 16-bit integers to 32-bit ones."""

DOTS: Mapping[str, Dot] = {
    dot.name: dot
    for dot in (
        Dot("pmaddwd", 2, "int16", 1, False, _pmaddwd),
        Dot("pmaddubsw", 4, "uint8", 2, True, _pmaddubsw),
        Dot("vpdpbusd", 4, "uint8", 0, False, _vpdpbusd),
        Dot("sdot", 4, "int8", 0, False, _sdot),
        Dot("dot_i16x8", 2, "int16", 1, False, _dot_i16x8),
        Dot(
            "relaxed_dot",
            4,
            "int8",
            2,
            False,
            _relaxed_dot,
            lift=64,
            saturating=_relaxed_by_pairs,
            needs="relaxed-simd",
            otherwise=QUADS,
        ),
        Dot(QUADS, 4, "int16", 1, False, _dot_i16x8),
        Dot("paired", 2, "int16", 2, False, _paired),
        Dot("widened", 1, "int16", 2, False, _widened),
        Dot("vdpbf16ps", 2, "uint16", 0, False, _vdpbf16ps),
        Dot("bf16_widened", 1, "float32", 1, False, _bf16_widened),
        Dot(PACKED_4X8, 4, "int8", 0, False, _only_on_gpus),
        Dot("smlad", 4, "int32", 0, False, _by_functions),
        Dot("mla", 1, "int16", 0, False, _by_functions),
        Dot("smlad_4", 8, "int32", 0, False, _by_functions),
        Dot("mla_4", 2, "int16", 0, False, _by_functions),
        Dot("vmladava", 16, "int8", 0, False, _by_functions),
        Dot("vmladava_16", 8, "int16", 0, False, _by_functions),
        Dot("vwmacc", 1, "int16", 0, False, _by_functions, narrow=True),
        Dot("vwmacc_16", 1, "int16", 0, False, _by_functions),
    )
}
"""All known instructions. `widened` multiplies int32 lanes, `paired` int16 lanes, `bf16_widened` float32 lanes, for
vectors without an instruction for dot products.
`packed_4x8` is that of GPUs (`schedules.gpu.dots`), `smlad` and `mla` are those of CPUs without vectors (`words`), with
`_4` for right factors of 4 bits; `vmladava` is that of Helium, with `_16` for left factors of 16 bits; `vwmacc` is that
of RISC-V's vectors (`devices.row_functions`)."""
