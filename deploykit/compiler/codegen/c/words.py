"""C functions on words of four 8-bit or two 16-bit integers, which kernels for CPUs without vectors call.

Each is one instruction of the DSP extension of Arm's M profile where a compiler says that there is one
(`__ARM_FEATURE_DSP`), and the same bits in plain C elsewhere. Inline assembly is for the forms that compilers do not
find: a rotation within `sxtb16`, `smlad` without its flag of overflow, which would order all of them, and `mla`, which
they divide where they add products first.

Words are read as the CPU stores them: factors of both sides are read alike, so that the order of bytes does not matter.
"""

from __future__ import annotations

import re

_DSP = "#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__)"

_LOAD = """static inline int32_t load_word(const void *p) {
    int32_t word;
    (void)memcpy(&word, p, sizeof word);
    return word;
}
"""

_SMLAD = f"""/* The sum, and the products of the lower halves and of the upper ones. */
static inline int32_t smlad(int32_t a, int32_t b, int32_t sum) {{
{_DSP}
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
#else
    const uint32_t low = (uint32_t)((int32_t)(int16_t)a * (int16_t)b);
    return (int32_t)((uint32_t)sum + low + (uint32_t)((int32_t)(int16_t)(a >> 16) * (int16_t)(b >> 16)));
#endif
}}
"""

_MLA = """static inline int32_t mla(int32_t a, int32_t b, int32_t sum) {
#if defined(__thumb2__) && defined(__GNUC__)
    __asm__("mla %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
#else
    return (int32_t)((uint32_t)sum + ((uint32_t)a * (uint32_t)b));
#endif
}
"""

_TO_24_BITS = """/* What a float32 keeps of a number: 24 significant bits, ties to even. */
static inline int64_t to_24_bits(int64_t x) {
    const uint64_t size = (x < 0) ? (0 - (uint64_t)x) : (uint64_t)x;
    if ((size >> 24) == 0) {
        return x;
    }
#if defined(__GNUC__)
    const int lost = 40 - __builtin_clzll(size);
#else
    int lost = 1;
    while (((size >> lost) >> 24) != 0) {
        ++lost;
    }
#endif
    const uint64_t half = (uint64_t)1 << (lost - 1);
    const uint64_t rest = size & ((2 * half) - 1);
    uint64_t kept = size >> lost;
    kept += (rest > half) || ((rest == half) && ((kept & 1) != 0));
    return (x < 0) ? -(int64_t)(kept << lost) : (int64_t)(kept << lost);
}
"""

_REQUANTIZE_NEAR_TIE = """/* total * multiplier + addend, in units of 2^-bits, as an integer.
   Each step is rounded as in float32. */
#if defined(__GNUC__)
__attribute__((noinline, cold))
#endif
static int32_t requantize_near_tie(int32_t total, int32_t multiplier, int64_t addend, int32_t bits) {
    const int64_t sum = to_24_bits(to_24_bits(to_24_bits(total) * multiplier) + addend);
    const uint64_t half = (uint64_t)1 << (bits - 1);
    const uint64_t rest = (uint64_t)sum & ((2 * half) - 1);
    const int32_t below = (int32_t)(sum >> bits);
    return below + ((rest > half) || ((rest == half) && ((below & 1) != 0)));
}
"""

_REQUANTIZE = """/* Like requantize_near_tie, and plus zero, but rounded once, unless the result is near to a tie:
   by less than near, in units of 2^-32. The addend has zero and one half in it. */
static inline int32_t requantize(
        int32_t total, int32_t multiplier, int64_t addend, int32_t zero, int32_t bits, uint32_t near) {
#if defined(__thumb2__) && defined(__GNUC__)
    int64_t sum = addend;
    __asm__("smlal %Q0, %R0, %1, %2" : "+r"(sum) : "r"(total), "r"(multiplier));
#else
    const int64_t sum = ((int64_t)total * multiplier) + addend;
#endif
    const uint32_t fraction = (uint32_t)((uint64_t)sum >> (bits - 32));
    if ((fraction + near) < (2 * near)) {
        const int64_t shift = (int64_t)((2 * zero) + 1) * ((int64_t)1 << (bits - 1));
        return requantize_near_tie(total, multiplier, addend - shift, bits) + zero;
    }
    return (int32_t)(sum >> bits);
}
"""


def _saturating(dtype: str, low: int, high: int) -> str:
    """The nearest number that is an integer of some bits."""
    return f"""static inline int32_t saturate_{dtype}(int32_t x) {{
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__)
    __asm__("{"u" if low == 0 else "s"}sat %0, #{dtype.partition("int")[2]}, %1" : "=r"(x) : "r"(x));
    return x;
#else
    return (x < {low}) ? {low} : ((x > {high}) ? {high} : x);
#endif
}}
"""


def _multiplying(halves: str) -> tuple[str, str]:
    """The sum and the product of the lower (`b`) or upper (`t`) half of each factor."""
    words = zip("ab", halves, strict=True)
    a, b = (f"(int16_t){word}" if half == "b" else f"(int16_t)({word} >> 16)" for word, half in words)
    name = f"smla{halves}"
    text = f"""static inline int32_t {name}(int32_t a, int32_t b, int32_t sum) {{
{_DSP}
    __asm__("{name} %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
#else
    return (int32_t)((uint32_t)sum + (uint32_t)((int32_t){a} * {b}));
#endif
}}
"""
    return name, text


def _packing(part: str) -> tuple[str, str]:
    """The lower or upper halves of two words as one word."""
    name = f"pack16_{part}"
    asm = "pkhbt %0, %1, %2, lsl #16" if part == "low" else "pkhtb %0, %2, %1, asr #16"
    plain = "((uint32_t)a & 65535U) | ((uint32_t)b << 16)"
    if part == "high":
        plain = "((uint32_t)a >> 16) | ((uint32_t)b & 4294901760U)"
    text = f"""/* The {"lower" if part == "low" else "upper"} halves of two words: that of `a` below that of `b`. */
static inline int32_t {name}(int32_t a, int32_t b) {{
{_DSP}
    int32_t halves;
    __asm__("{asm}" : "=r"(halves) : "r"(a), "r"(b));
    return halves;
#else
    return (int32_t)({plain});
#endif
}}
"""
    return name, text


def _widening(signed: bool, rotated: bool) -> tuple[str, str]:
    """Bytes 0 and 2 of a word, or 1 and 3, as two 16-bit integers."""
    instruction = "sxtb16" if signed else "uxtb16"
    name = f"{instruction}_ror8" if rotated else instruction
    low, high = (8, 24) if rotated else (0, 16)
    byte = "int8_t" if signed else "uint8_t"
    parts = [f"(uint8_t)((uint32_t)word >> {shift})" if shift else "(uint8_t)word" for shift in (low, high)]
    halves = [f"(uint16_t)({byte}){part}" if signed else f"(uint16_t){part}" for part in parts]
    asm = f"{instruction} %0, %1, ror #8" if rotated else f"{instruction} %0, %1"
    text = f"""/* Bytes {"1 and 3" if rotated else "0 and 2"} as two 16-bit integers. */
static inline int32_t {name}(int32_t word) {{
{_DSP}
    int32_t halves;
    __asm__("{asm}" : "=r"(halves) : "r"(word));
    return halves;
#else
    return (int32_t)({halves[0]} | ((uint32_t){halves[1]} << 16));
#endif
}}
"""
    return name, text


def _half(part: str) -> tuple[str, str]:
    """The integer in the lower or upper half of a byte."""
    value = "byte >> 4" if part == "upper" else "(int32_t)((uint32_t)byte << 28) >> 28"
    return f"{part}_half", f"static inline int32_t {part}_half(int32_t byte) {{\n    return {value};\n}}\n"


_COPY = """/* Copies bytes, words at a time where it can: memcpy of small C libraries copies byte by byte. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static void copy_words(void *to, const void *from, int32_t bytes) {
#if defined(__GNUC__)
    if ((((uintptr_t)to | (uintptr_t)from) & 3) == 0) {
        unsigned char *target = (unsigned char *)__builtin_assume_aligned(to, 4);
        const unsigned char *source = (const unsigned char *)__builtin_assume_aligned(from, 4);
        for (int32_t left = bytes; left >= 16; left -= 16) {
            (void)memcpy(target, source, 16);
            target = &target[16];
            source = &source[16];
        }
        if ((bytes & 8) != 0) {
            (void)memcpy(target, source, 8);
            target = &target[8];
            source = &source[8];
        }
        if ((bytes & 4) != 0) {
            (void)memcpy(target, source, 4);
            target = &target[4];
            source = &source[4];
        }
        if ((bytes & 3) != 0) {
            (void)memcpy(target, source, (size_t)(bytes & 3));
        }
        return;
    }
#endif
    (void)memcpy(to, from, (size_t)bytes);
}
"""

_FILL = """/* Fills bytes with a number of 8 or 16 bits. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static void fill_words(void *to, int32_t number, int32_t bits, int32_t bytes) {
    const uint32_t byte = (uint8_t)number;
    uint32_t word = (uint16_t)number;
    word *= 65537U;
    if (bits == 8) {
        word = byte * 16843009U;
    }
    unsigned char *target = (unsigned char *)to;
    for (int32_t left = bytes; left >= 8; left -= 8) {
        (void)memcpy(target, &word, 4);
        (void)memcpy(&target[4], &word, 4);
        target = &target[8];
    }
    if ((bytes & 4) != 0) {
        (void)memcpy(target, &word, 4);
        target = &target[4];
    }
    if ((bytes & 3) != 0) {
        (void)memcpy(target, &word, (size_t)(bytes & 3));
    }
}
"""

FUNCTIONS = [
    ("load_word", _LOAD),
    ("copy_words", _COPY),
    ("fill_words", _FILL),
    ("smlad", _SMLAD),
    *map(_multiplying, ("bb", "tt", "tb", "bt")),
    _half("lower"),
    _half("upper"),
    _packing("low"),
    _packing("high"),
    ("mla", _MLA),
    ("to_24_bits", _TO_24_BITS),
    ("requantize_near_tie", _REQUANTIZE_NEAR_TIE),
    ("requantize", _REQUANTIZE),
    ("saturate_int8", _saturating("int8", -128, 127)),
    ("saturate_uint8", _saturating("uint8", 0, 255)),
    ("saturate_int16", _saturating("int16", -32768, 32767)),
    ("saturate_uint15", _saturating("uint15", 0, 32767)),
    *(_widening(signed, rotated) for signed in (True, False) for rotated in (False, True)),
]
"""The functions, by name."""

WRITERS = frozenset({"copy_words", "fill_words"})
"""Those that write, through their first pointer only."""

_OPTIONS = """#if defined(__arm__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns") /* it would move loads to where their values have no registers */
#endif

"""


def options(text: str) -> str:
    """What compilers are told before functions of which `text` consists, if these compute on words."""
    return _OPTIONS if re.search(r"\b(smlad|smla[bt]{2}|mla)\(", text) else ""
