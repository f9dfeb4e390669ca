"""C functions on rows of 8- and 16-bit integers for CPUs with Helium (the M-profile Vector Extension of Arm).

They are inline assembly where a compiler says that there are such vectors (`__ARM_FEATURE_MVE`), because compilers keep
the sums of `vmladava` in other registers than it takes, and find no loops with predicated tails. Elsewhere they are the
same in plain C (`rows`), with the same bits.

A panel of right factors has four columns: 16 factors of each column, then the next 16 ones, padded with zeros. For left
factors of 16 bits they are eight each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from deploykit.compiler.codegen.c import rows
from deploykit.compiler.codegen.c.rows import assembly
from deploykit.compiler.devices.helium import WIDTH

_INTEGERS = "#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__PIC__)"
"""Without optimisation, and in position-independent code, registers are taken for other things."""

FLOATS = f"{_INTEGERS} && (__ARM_FEATURE_MVE & 2) != 0"
_OPTIONS = """#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-if-conversion2") /* assemblers refuse vcvtne, a conversion of floats on a condition */
#endif

"""
ONCE = """#if defined(__GNUC__) && !defined(__clang__)
__attribute__((noinline, noclone))
#endif
"""
_IN_REGISTERS = """#if defined(__GNUC__) && !defined(__clang__)
__attribute__((noinline, noclone, optimize("omit-frame-pointer", "no-tree-slp-vectorize")))
#endif
"""
"""For functions whose sums take eight registers. Vectors of them would be gathered in memory."""


def options(text: str) -> str:
    """What compilers are told before functions of which `text` consists, if these have floats."""
    return _OPTIONS if re.search(r"\b(float|double)\b", text) else ""


@dataclass(frozen=True)
class _Kind:
    """Left factors of a dtype: `suffix` ends the names of functions, `bits` are those of a lane, `load` reads a vector
    of them, and `weights` one of right factors."""

    dtype: str
    suffix: str
    bits: int
    load: str
    weights: str

    @property
    def lanes(self) -> int:
        """The terms of a vector, which are those of a group of a panel."""
        return 128 // self.bits

    def group(self, names: Sequence[str], loads: Sequence[str], multiply: str = "vmladava") -> list[str]:
        """Adds the products of a vector of terms to the sums of rows and four columns; `vmladav` begins these. `names`
        name the sums of rows."""
        lines = list(loads)
        for column in range(WIDTH):
            factors = f"q{2 + column % 2}"
            lines.append(f"{self.weights} {factors}, [%[w]], #{self.lanes}")
            lines += [f"{multiply}.s{self.bits} %[{row}{column}], q{i}, {factors}" for i, row in enumerate(names)]
        return lines

    @property
    def rows(self) -> list[str]:
        """Loads of the factors of two rows."""
        return [f"{self.load}.{self.bits} q{i}, [%[{row}]], #16" for i, row in enumerate("ab")]

    @property
    def two_rows(self) -> list[str]:
        """All products of two rows."""
        n, whole = self.lanes, self.group("st", self.rows)
        last = [f"{self.load}t.{self.bits} q{i}, [%[{row}]]" for i, row in enumerate("ab")]
        part = self.group("st", [f"vctp.{self.bits} %[n]", "vpstt", *last])
        return [
            *(f"subs %[n], %[n], #{2 * n}", "blt 2f", "1:", *whole, *whole, f"subs %[n], %[n], #{2 * n}", "bge 1b"),
            *("2:", f"adds %[n], %[n], #{n}", "blt 3f", *whole, f"subs %[n], %[n], #{n}", "3:"),
            *(f"adds %[n], %[n], #{n}", "beq 4f", *part, "4:"),
        ]

    @property
    def from_nothing(self) -> list[str]:
        """The same, for sums that are not begun."""
        return [f"sub %[n], %[n], #{self.lanes}", *self.group("st", self.rows, "vmladav"), *self.two_rows]

    @property
    def one_row(self) -> str:
        """All products of a row."""
        first = self.group("s", self.rows[:1])
        return assembly([f"wlstp.{self.bits} lr, %[n], 2f", "1:", *first, "letp lr, 1b", "2:"])


_BYTES = _Kind("int8", "", 8, "vldrb", "vldrb.8")
_HALVES = _Kind("int16", "_int16", 16, "vldrh", "vldrb.s16")


def _sums(names: str, changed: str = "+") -> str:
    return ", ".join(f'[{name}{column}] "{changed}&Te"({name}{column})' for name in names for column in range(WIDTH))


_REGISTERS = {"s": ("r0", "r2", "r4", "r6"), "t": ("r8", "r10", "r12", "lr")}
"""The registers for the sums of two rows: all even ones, which compilers do not manage to keep free by themselves."""


def _two_rows(kind: _Kind, begun: bool) -> str:
    """Inline assembly that computes the sums of two rows, which are `begun` in `held`, and stores them."""
    lines = kind.two_rows if begun else kind.from_nothing
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
    return f"""        register const {kind.dtype}_t *a __asm__("r1") = row, *b __asm__("r3") = other;
        register const int8_t *w __asm__("r5") = panel;
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


def _multiply_row(kind: _Kind) -> tuple[str, str]:
    name, group = f"multiply_row{kind.suffix}", kind.lanes
    text = f"""/* The products of a row of `terms` factors and of `panels` panels, which are `step` bytes apart.
   They are added to the sums if there are `more` than these. */
{_IN_REGISTERS}static void {name}(
        int32_t *sums, const {kind.dtype}_t *row, const int8_t *panel, int32_t step, int32_t terms, int32_t panels,
        int32_t more) {{
    for (; panels > 0; --panels, panel += step, sums += {WIDTH}) {{
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
{_INTEGERS}
        const {kind.dtype}_t *a = row;
        const int8_t *w = panel;
        __asm__ volatile(
{kind.one_row}
            : {_sums("s")}, [a] "+&r"(a), [w] "+&r"(w)
            : [n] "r"(terms)
            : "q0", "q2", "q3", "lr", "cc", "memory");
#else
        for (int32_t k = 0; k < terms; ++k) {{
            const int8_t *w = panel + k / {group} * {WIDTH * group} + k % {group};
            s0 = (int32_t)((uint32_t)s0 + (uint32_t)(row[k] * w[0]));
            s1 = (int32_t)((uint32_t)s1 + (uint32_t)(row[k] * w[{group}]));
            s2 = (int32_t)((uint32_t)s2 + (uint32_t)(row[k] * w[{2 * group}]));
            s3 = (int32_t)((uint32_t)s3 + (uint32_t)(row[k] * w[{3 * group}]));
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
    return name, text


def _multiply_rows(kind: _Kind) -> tuple[str, str]:
    name, alone = f"multiply_rows{kind.suffix}", f"multiply_row{kind.suffix}"
    text = f"""/* Like {alone} for two rows, whose sums are `between` apart. */
{_IN_REGISTERS}static void {name}(
        int32_t *sums, int32_t between, const {kind.dtype}_t *row, const {kind.dtype}_t *other, const int8_t *panel,
        int32_t step, int32_t terms, int32_t panels, int32_t more) {{
{_INTEGERS}
    for (; panels > 0 && more == 0 && terms >= {kind.lanes}; --panels, panel += step, sums += {WIDTH}) {{
{_two_rows(kind, begun=False)}
    }}
    for (; panels > 0; --panels, panel += step, sums += {WIDTH}) {{
        int32_t held[{2 * WIDTH}] = {{0}};
        for (int32_t i = 0; more != 0 && i < {WIDTH}; ++i) {{
            held[i] = sums[i];
            held[{WIDTH} + i] = sums[between + i];
        }}
{_two_rows(kind, begun=True)}
    }}
#else
    {alone}(sums, row, panel, step, terms, panels, more);
    {alone}(sums + between, other, panel, step, terms, panels, more);
#endif
}}
"""
    return name, text


def _eight(dtype: str, place: int, to: int, then: str = "") -> list[str]:
    """Adds the products of eight channels at one tap, from a place on, to the even and odd sums; those that exist with
    `then`."""
    wide = dtype == "int16"
    load = f"vldrh{then}.16" if wide else f"vldrb{then}.{dtype[0].replace('i', 's')}16"
    data, weights = (f", #{offset}" if place else "" for offset in (2 * place if wide else place, place))
    return [
        *(["vpstt"] if then else []),
        f"{load} q0, [%[d]{data}]",
        f"vldrb{then}.s16 q1, [%[w]{weights}]",
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
    zeros = [f"vmov.i32 q{register}, #0" for register in (4, 5, 6, 7)]
    sixteen = [*_eight(dtype, 0, 4), *_eight(dtype, 8, 6)]
    whole = assembly([*zeros, *_all_taps(sixteen), *_stored(4), *_stored(6)])
    part = assembly([*zeros[:2], "vctp.16 %[left]", *_all_taps(_eight(dtype, 0, 4, "t")), *_stored(4)])
    size = "2 * " if dtype == "int16" else ""
    operands = f""": [d] "+&l"(d), [w] "+&l"(w), [n] "+&r"(n), [sums] "+&r"(sums)
            : [columns] "r"(columns), [column] "r"({size}column), [between] "r"(between), [skip] "r"(skip)"""
    apart = "2 * (row - columns * column)" if dtype == "int16" else "row - columns * column"
    vectors = f"""    const int32_t skip = {apart};
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


def _requantize(name: str, factor: str, dtype: str = "uint8") -> tuple[str, str]:
    """Requantisation of the sums of a row: `factor` is the type of factors, a pointer or one number for all."""
    each = "*" in factor
    store = "vstrb.32 q0, [%[o]], #4" if dtype == "uint8" else "vstrh.32 q0, [%[o]], #8"
    multiply = ["vldrw.32 q1, [%[f]], #16", "vmul.f32 q0, q0, q1"] if each else ["vmul.f32 q0, q0, %[f]"]
    lines = assembly(
        [
            *("vdup.32 q2, %[low]", "vdup.32 q3, %[high]", "wlstp.32 lr, %[n], 2f", "1:"),
            *("vldrw.32 q0, [%[s]], #16", "vcvt.f32.s32 q0, q0", *multiply),
            *("vldrw.32 q1, [%[b]], #16", "vadd.f32 q0, q0, q1", "vmaxnm.f32 q0, q0, q2", "vminnm.f32 q0, q0, q3"),
            *("vcvtn.s32.f32 q0, q0", "vadd.i32 q0, q0, %[z]", store, "letp lr, 1b", "2:"),
        ]
    )
    changed, taken = (', [f] "+&r"(f)', ", *f = factors") if each else ("", "")
    kept = "" if each else '[f] "r"(factor), '
    vectors = f"""        {dtype}_t *o = stored;
        const int32_t *s = sums;
        const float *b = biases{taken};
        __asm__ volatile(
{lines}
            : [o] "+&l"(o), [s] "+&r"(s), [b] "+&r"(b){changed}
            : {kept}[n] "r"(count), [low] "r"(low), [high] "r"(high), [z] "r"(zero)
            : "q0", "q1", "q2", "q3", "lr", "cc", "memory");"""
    return rows.requantize(name, factor, ONCE, FLOATS, vectors, dtype)


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
    *(function(kind) for kind in (_BYTES, _HALVES) for function in (_multiply_row, _multiply_rows)),
    *map(_multiply_taps, ("int8", "uint8", "int16")),
    _requantize("requantize_rows", "const float *factors"),
    _requantize("requantize_rows_evenly", "float factor"),
    _requantize("requantize_rows_int16", "const float *factors", "int16"),
    _requantize("requantize_rows_evenly_int16", "float factor", "int16"),
    _copy("copy_bytes", [], rows.COPIED),
    _copy("copy_signed", ["veor q0, q0, q1"], rows.SIGNED),
    rows.fill("fill_bytes", _INTEGERS, _FILL),
]
"""The functions, by name."""

NAMES = frozenset(name for name, _ in FUNCTIONS)
"""The functions, which write through their first pointer only."""
