"""C functions on rows of 8-bit integers for CPUs with Helium (the M-profile Vector Extension of Arm).

They are inline assembly where a compiler says that there are such vectors (`__ARM_FEATURE_MVE`), because compilers keep
the sums of `vmladava` in other registers than it takes, and find no loops with predicated tails. Elsewhere they are the
same in plain C (`rows`), with the same bits.

A panel of right factors has four columns: 16 factors of each column, then the next 16 ones, padded with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.codegen.c import rows
from deploykit.compiler.codegen.c.rows import assembly
from deploykit.compiler.devices.helium import GROUP, WIDTH

_INTEGERS = "#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__PIC__)"
"""Without optimisation, and in position-independent code, registers are taken for other things."""

FLOATS = f"{_INTEGERS} && (__ARM_FEATURE_MVE & 2) != 0"
ONCE = """#if defined(__GNUC__) && !defined(__clang__)
__attribute__((noinline, noclone))
#endif
"""
_IN_REGISTERS = """#if defined(__GNUC__) && !defined(__clang__)
__attribute__((noinline, noclone, optimize("omit-frame-pointer", "no-tree-slp-vectorize")))
#endif
"""
"""For functions whose sums take eight registers. Vectors of them would be gathered in memory."""


def _group(names: Sequence[str], loads: Sequence[str], multiply: str = "vmladava") -> list[str]:
    """Adds the products of 16 terms to the sums of rows and four columns; `vmladav` begins these. `names` name the
    sums of rows."""
    lines = list(loads)
    for column in range(WIDTH):
        factors = f"q{2 + column % 2}"
        lines.append(f"vldrb.8 {factors}, [%[w]], #16")
        lines += [f"{multiply}.s8 %[{row}{column}], q{i}, {factors}" for i, row in enumerate(names)]
    return lines


_ROWS = ["vldrb.8 q0, [%[a]], #16", "vldrb.8 q1, [%[b]], #16"]
_WHOLE = _group("st", _ROWS)
_PART = _group("st", ["vctp.8 %[n]", "vpstt", "vldrbt.8 q0, [%[a]]", "vldrbt.8 q1, [%[b]]"])
_TWO_ROWS = [
    *("subs %[n], %[n], #32", "blt 2f", "1:", *_WHOLE, *_WHOLE, "subs %[n], %[n], #32", "bge 1b", "2:"),
    *("adds %[n], %[n], #16", "blt 3f", *_WHOLE, "subs %[n], %[n], #16", "3:"),
    *("adds %[n], %[n], #16", "beq 4f", *_PART, "4:"),
]
_FROM_NOTHING = ["sub %[n], %[n], #16", *_group("st", _ROWS, "vmladav"), *_TWO_ROWS]
_ONE_ROW = assembly(["wlstp.8 lr, %[n], 2f", "1:", *_group("s", ["vldrb.8 q0, [%[a]], #16"]), "letp lr, 1b", "2:"])


def _sums(names: str, changed: str = "+") -> str:
    return ", ".join(f'[{name}{column}] "{changed}&Te"({name}{column})' for name in names for column in range(WIDTH))


_REGISTERS = {"s": ("r0", "r2", "r4", "r6"), "t": ("r8", "r10", "r12", "lr")}
"""The registers for the sums of two rows: all even ones, which compilers do not manage to keep free by themselves."""


def _two_rows(lines: Sequence[str], begun: bool) -> str:
    """Inline assembly that computes the sums of two rows, which are `begun` in `held`, and stores them."""
    names = [f"{name}{column}" for name in _REGISTERS for column in range(WIDTH)]
    places = [register for registers in _REGISTERS.values() for register in registers]
    declared = "\n".join(
        f'        register int32_t {name} __asm__("{place}"){f" = held[{i}]" if begun else ""};'
        for i, (name, place) in enumerate(zip(names, places, strict=True))
    )
    stored = "\n".join(
        f"        {'below' if name[0] == 't' else 'sums'}[{i % WIDTH}] = {name};" for i, name in enumerate(names)
    )
    operands = ", ".join(f'[{name}] "{"+" if begun else "="}&r"({name})' for name in names)
    return f"""        register const int8_t *a __asm__("r1") = row, *b __asm__("r3") = other, *w __asm__("r5") = panel;
        register int32_t n __asm__("r9") = terms;
{declared}
        __asm__ volatile(
{assembly(lines)}
            : {operands},
              [a] "+&r"(a), [b] "+&r"(b), [w] "+&r"(w), [n] "+&r"(n)
            :
            : "q0", "q1", "q2", "q3", "cc", "memory");
        int32_t *below = sums + between;
{stored}"""


_MULTIPLY_ROW = f"""/* The products of a row of `terms` factors and of `panels` panels, which are `step` bytes apart.
   They are added to the sums if there are `more` than these. */
{_IN_REGISTERS}static void multiply_row(
        int32_t *sums, const int8_t *row, const int8_t *panel, int32_t step, int32_t terms, int32_t panels,
        int32_t more) {{
    for (; panels > 0; --panels, panel += step, sums += {WIDTH}) {{
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
{_INTEGERS}
        const int8_t *a = row, *w = panel;
        __asm__ volatile(
{_ONE_ROW}
            : {_sums("s")}, [a] "+&r"(a), [w] "+&r"(w)
            : [n] "r"(terms)
            : "q0", "q2", "q3", "lr", "cc", "memory");
#else
        for (int32_t k = 0; k < terms; ++k) {{
            const int8_t *w = panel + k / {GROUP} * {WIDTH * GROUP} + k % {GROUP};
            s0 = (int32_t)((uint32_t)s0 + (uint32_t)(row[k] * w[0]));
            s1 = (int32_t)((uint32_t)s1 + (uint32_t)(row[k] * w[{GROUP}]));
            s2 = (int32_t)((uint32_t)s2 + (uint32_t)(row[k] * w[{2 * GROUP}]));
            s3 = (int32_t)((uint32_t)s3 + (uint32_t)(row[k] * w[{3 * GROUP}]));
        }}
#endif
        if (more != 0) {{
            s0 = (int32_t)((uint32_t)s0 + (uint32_t)sums[0]);
            s1 = (int32_t)((uint32_t)s1 + (uint32_t)sums[1]);
            s2 = (int32_t)((uint32_t)s2 + (uint32_t)sums[2]);
            s3 = (int32_t)((uint32_t)s3 + (uint32_t)sums[3]);
        }}
        sums[0] = s0;
        sums[1] = s1;
        sums[2] = s2;
        sums[3] = s3;
    }}
}}
"""

_MULTIPLY_ROWS = f"""/* Like multiply_row for two rows, whose sums are `between` apart. */
{_IN_REGISTERS}static void multiply_rows(
        int32_t *sums, int32_t between, const int8_t *row, const int8_t *other, const int8_t *panel, int32_t step,
        int32_t terms, int32_t panels, int32_t more) {{
{_INTEGERS}
    for (; panels > 0 && more == 0 && terms >= {GROUP}; --panels, panel += step, sums += {WIDTH}) {{
{_two_rows(_FROM_NOTHING, begun=False)}
    }}
    for (; panels > 0; --panels, panel += step, sums += {WIDTH}) {{
        int32_t held[{2 * WIDTH}] = {{0}};
        for (int32_t i = 0; more != 0 && i < {WIDTH}; ++i) {{
            held[i] = sums[i];
            held[{WIDTH} + i] = sums[between + i];
        }}
{_two_rows(_TWO_ROWS, begun=True)}
    }}
#else
    multiply_row(sums, row, panel, step, terms, panels, more);
    multiply_row(sums + between, other, panel, step, terms, panels, more);
#endif
}}
"""


def _eight(sign: str, offset: str, to: int, then: str = "") -> list[str]:
    """Adds the products of eight channels at one tap to the even and odd sums; those that exist with `then`."""
    return [
        *(["vpstt"] if then else []),
        f"vldrb{then}.{sign}16 q0, [%[d]{offset}]",
        f"vldrb{then}.s16 q1, [%[w]{offset}]",
        "vmullb.s16 q2, q0, q1",
        "vmullt.s16 q3, q0, q1",
        f"vadd.i32 q{to}, q{to}, q2",
        f"vadd.i32 q{to + 1}, q{to + 1}, q3",
    ]


def _all_taps(step: Sequence[str]) -> list[str]:
    """Runs `step` for all taps."""
    return [
        *("1:", "dls lr, %[columns]", "2:", *step, "add %[d], %[d], %[column]", "add %[w], %[w], %[between]"),
        *("le lr, 2b", "add %[d], %[d], %[skip]", "subs %[n], %[n], #1", "bne 1b"),
    ]


def _stored(first: int) -> list[str]:
    pair = f"{{q{first}, q{first + 1}}}"
    return [f"vst20.32 {pair}, [%[sums]]", f"vst21.32 {pair}, [%[sums]]!"]


def _multiply_taps(dtype: str) -> tuple[str, str]:
    """The sums of products of channels, of which the data have the dtype."""
    sign = dtype[0].replace("i", "s")
    zeros = [f"vmov.i32 q{register}, #0" for register in (4, 5, 6, 7)]
    sixteen = [*_eight(sign, "", 4), *_eight(sign, ", #8", 6)]
    whole = assembly([*zeros, *_all_taps(sixteen), *_stored(4), *_stored(6)])
    part = assembly([*zeros[:2], "vctp.16 %[left]", *_all_taps(_eight(sign, "", 4, "t")), *_stored(4)])
    operands = """: [d] "+&l"(d), [w] "+&l"(w), [n] "+&r"(n), [sums] "+&r"(sums)
            : [columns] "r"(columns), [column] "r"(column), [between] "r"(between), [skip] "r"(skip)"""
    vectors = f"""    const int32_t skip = row - columns * column;
    for (; outputs > 0; --outputs, data += step) {{
        int32_t c = 0;
        for (; channels - c >= 16; c += 16) {{
            const {dtype}_t *d = data + c;
            const int8_t *w = weights + c;
            int32_t n = rows;
            __asm__ volatile(
{whole}
            {operands}
            : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "lr", "cc", "memory");
        }}
        for (; c < channels; c += 8) {{
            const {dtype}_t *d = data + c;
            const int8_t *w = weights + c;
            int32_t n = rows;
            __asm__ volatile(
{part}
            {operands}, [left] "r"(channels - c)
            : "q0", "q1", "q2", "q3", "q4", "q5", "lr", "cc", "memory");
        }}
    }}"""
    return rows.taps(f"multiply_taps_{dtype}", dtype, ONCE, _INTEGERS, vectors)


def _requantize(name: str, factor: str) -> tuple[str, str]:
    """Requantisation of the sums of a row: `factor` is the type of factors, a pointer or one number for all."""
    each = "*" in factor
    multiply = ["vldrw.32 q1, [%[f]], #16", "vmul.f32 q0, q0, q1"] if each else ["vmul.f32 q0, q0, %[f]"]
    lines = assembly(
        [
            *("vdup.32 q2, %[low]", "vdup.32 q3, %[high]", "wlstp.32 lr, %[n], 2f", "1:"),
            *("vldrw.32 q0, [%[s]], #16", "vcvt.f32.s32 q0, q0", *multiply),
            *("vldrw.32 q1, [%[b]], #16", "vadd.f32 q0, q0, q1", "vmaxnm.f32 q0, q0, q2", "vminnm.f32 q0, q0, q3"),
            *("vcvtn.s32.f32 q0, q0", "vadd.i32 q0, q0, %[z]", "vstrb.32 q0, [%[o]], #4", "letp lr, 1b", "2:"),
        ]
    )
    changed, taken = (', [f] "+&r"(f)', ", *f = factors") if each else ("", "")
    kept = "" if each else '[f] "r"(factor), '
    vectors = f"""        uint8_t *o = bytes;
        const int32_t *s = sums;
        const float *b = biases{taken};
        __asm__ volatile(
{lines}
            : [o] "+&l"(o), [s] "+&r"(s), [b] "+&r"(b){changed}
            : {kept}[n] "r"(count), [low] "r"(low), [high] "r"(high), [z] "r"(zero)
            : "q0", "q1", "q2", "q3", "lr", "cc", "memory");"""
    return rows.requantize(name, factor, ONCE, FLOATS, vectors)


def _copy(name: str, change: Sequence[str], plain: str) -> tuple[str, str]:
    """A copy of bytes. `change` is done to a vector q0, with q1, whose bytes are 128."""
    lines = ["wlstp.8 lr, %[n], 2f", "1:", "vldrb.8 q0, [%[s]], #16", *change, "vstrb.8 q0, [%[t]], #16", "letp lr, 1b"]
    vectors = f"""    __asm__ volatile(
{assembly([*(["vmov.i8 q1, #128"] if change else []), *lines, "2:"])}
            : [t] "+&r"(target), [s] "+&r"(source)
            : [n] "r"(count)
            : "q0", "q1", "lr", "cc", "memory");"""
    return rows.copy(name, _INTEGERS, vectors, plain)


_FILL = f"""    __asm__ volatile(
{assembly(["vdup.8 q0, %[b]", "wlstp.8 lr, %[n], 2f", "1:", "vstrb.8 q0, [%[t]], #16", "letp lr, 1b", "2:"])}
            : [t] "+&r"(target)
            : [n] "r"(count), [b] "r"(byte)
            : "q0", "lr", "cc", "memory");"""

FUNCTIONS = [
    ("multiply_row", _MULTIPLY_ROW),
    ("multiply_rows", _MULTIPLY_ROWS),
    _multiply_taps("int8"),
    _multiply_taps("uint8"),
    _requantize("requantize_rows", "const float *factors"),
    _requantize("requantize_rows_evenly", "float factor"),
    _copy("copy_bytes", [], rows.COPIED),
    _copy("copy_signed", ["veor q0, q0, q1"], rows.SIGNED),
    rows.fill("fill_bytes", _INTEGERS, _FILL),
]
"""The functions, by name."""

NAMES = frozenset(name for name, _ in FUNCTIONS)
"""The functions, which write through their first pointer only."""
