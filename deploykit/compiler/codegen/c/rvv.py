"""C functions on rows of 8- and 16-bit integers for CPUs with the V extension of RISC-V.

They are inline assembly where a compiler says that there is this extension (`__riscv_v`), because older compilers know
its instructions and nothing else of it. Elsewhere they are the same in plain C (`rows`), with the same bits. They take
as many columns or channels at a time as eight vectors have numbers of 32 bits, however long vectors are.

Right factors of a term are next to each other, `width` bytes behind those of the term before.
"""

from __future__ import annotations

import re

from deploykit.compiler.codegen.c import rows
from deploykit.compiler.codegen.c.rows import assembly
from deploykit.compiler.devices.rvv import ROWS

RVV = "#if defined(__riscv_v) && defined(__GNUC__)"

_NAMED = ", ".join(f'"v{register}"' for register in range(32))

_MACROS = f"""/* What assembly changes. Older compilers than these use no vectors, and do not know their names. */
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 13)
#define VECTORS \\
    "memory", "vl", "vtype", {_NAMED}
#else
#define VECTORS "memory"
#endif

"""

WORDS = "vsetvli %[vl], {}, e32, m8, ta, ma"
_HALVES = "vsetvli zero, zero, e16, m4, ta, ma"
_BYTES = "vsetvli zero, zero, e8, m2, ta, ma"
_AGAIN = "vsetvli zero, zero, e32, m8, ta, ma"
"""As many numbers of 16, 8 and 32 bits as there were."""

_TOGETHER = 4
"""The terms of an iteration."""

SUMS = ("v8", "v16", "v24")
"""The sums of three rows, or of three outputs."""


_LOADS = {"int8": "lb", "uint8": "lbu", "int16": "lh"}
"""What reads a left factor of a dtype."""


def _bytes(dtype: str) -> int:
    return 2 if dtype == "int16" else 1


def _term(dtype: str, count: int, term: int) -> list[str]:
    """Adds the products of a term to the sums of `count` rows, whose factors have the dtype."""
    factors, named = f"v{term % 2 * 2}", range(count)
    return [
        *(f"vle8.v {factors}, (%[w])", "add %[w], %[w], %[width]"),
        *(f"{_LOADS[dtype]} %[x{i}], {term * _bytes(dtype)}(%[a{i}])" for i in named),
        f"vsext.vf2 v4, {factors}",
        *(f"vwmacc.vx {SUMS[i]}, %[x{i}], v4" for i in named),
    ]


def _multiply(dtype: str, count: int) -> str:
    """Inline assembly for the sums of `count` rows and of columns that fill eight vectors."""
    named = range(count)
    together = [line for term in range(_TOGETHER) for line in _term(dtype, count, term)]

    def onward(terms: int) -> list[str]:
        return [*(f"addi %[a{i}], %[a{i}], {terms * _bytes(dtype)}" for i in named), f"addi %[n], %[n], -{terms}"]

    lines = [
        *(WORDS.format("%[columns]"), "beqz %[more], 1f"),
        *(f"vle32.v {SUMS[i]}, (%[s{i}])" for i in named),
        *("j 2f", "1:", *(f"vmv.v.i {SUMS[i]}, 0" for i in named), "2:", _HALVES),
        *(f"addi %[n], %[n], -{_TOGETHER}", "bltz %[n], 4f"),
        *("3:", *together, *onward(_TOGETHER), "bgez %[n], 3b"),
        *("4:", f"addi %[n], %[n], {_TOGETHER}", "blez %[n], 6f"),
        *("5:", *_term(dtype, count, 0), *onward(1), "bnez %[n], 5b"),
        *("6:", _AGAIN, *(f"vse32.v {SUMS[i]}, (%[s{i}])" for i in named)),
    ]
    places = ", ".join(f"*a{i} = {name}" for i, name in zip(named, ("row", "second", "third"), strict=False))
    changed = ", ".join(f'[a{i}] "+&r"(a{i}), [x{i}] "=&r"(x{i})' for i in named)
    taken = ", ".join(f'[s{i}] "r"(sums{f" + {i} * between" if i else ""})' for i in named)
    return f"""    for (int32_t vl; columns > 0; columns -= vl, sums += vl, right += vl) {{
        const {dtype}_t {places};
        const int8_t *w = right;
        int32_t n = terms, {", ".join(f"x{i}" for i in named)};
        __asm__ volatile(
{assembly(lines)}
            : [vl] "=&r"(vl), [w] "+&r"(w), [n] "+&r"(n), {changed}
            : {taken}, [width] "r"(width), [columns] "r"(columns), [more] "r"(more)
            : VECTORS);
    }}"""


def _multiply_row(dtype: str) -> tuple[str, str]:
    """The products of a row of factors, which have the dtype."""
    name = f"multiply_row_{dtype}_rvv"
    text = f"""/* The products of a row of `terms` factors and of `columns` columns.
   They are added to the sums if there are `more` than these. */
static void {name}(
        int32_t *sums, const {dtype}_t *row, const int8_t *right, int32_t width, int32_t terms, int32_t columns,
        int32_t more) {{
{RVV}
{_multiply(dtype, 1)}
#else
    for (int32_t j = 0; j < columns; ++j) {{
        int32_t sum = more != 0 ? sums[j] : 0;
        for (int32_t k = 0; k < terms; ++k) {{
            sum = (int32_t)((uint32_t)sum + (uint32_t)(row[k] * right[k * width + j]));
        }}
        sums[j] = sum;
    }}
#endif
}}
"""
    return name, text


def _multiply_rows(dtype: str) -> tuple[str, str]:
    """The products of three rows."""
    name, alone = f"multiply_rows_{dtype}_rvv", f"multiply_row_{dtype}_rvv"
    text = f"""/* Like {alone} for three rows, whose sums are `between` apart. */
static void {name}(
        int32_t *sums, int32_t between, const {dtype}_t *row, const {dtype}_t *second, const {dtype}_t *third,
        const int8_t *right, int32_t width, int32_t terms, int32_t columns, int32_t more) {{
{RVV}
{_multiply(dtype, ROWS)}
#else
    {alone}(sums, row, right, width, terms, columns, more);
    {alone}(sums + between, second, right, width, terms, columns, more);
    {alone}(sums + 2 * between, third, right, width, terms, columns, more);
#endif
}}
"""
    return name, text


def _all_taps(count: int, dtype: str) -> str:
    """Inline assembly for the sums of channels that fill eight vectors, of `count` outputs."""
    extend, size = "vzext" if dtype == "uint8" else "vsext", "2 * " if dtype == "int16" else ""
    named = range(count)
    step = ["vle8.v v2, (%[w])", "add %[w], %[w], %[between]", "vsext.vf2 v0, v2"]
    for i in named:
        place = f"(%[{'at' if i else 'd'}])"
        step += [f"vle16.v v4, {place}"] if dtype == "int16" else [f"vle8.v v6, {place}", f"{extend}.vf2 v4, v6"]
        if i + 1 < count:
            step += [f"add %[at], %[{'at' if i else 'd'}], %[step]"]
        step += [f"vwmacc.vv {SUMS[i]}, v4, v0"]
    lines = [
        *(WORDS.format("%[left]"), *(f"vmv.v.i {SUMS[i]}, 0" for i in named), _HALVES),
        *("1:", "mv %[m], %[columns]", "2:", *step, "add %[d], %[d], %[column]"),
        *("addi %[m], %[m], -1", "bnez %[m], 2b", "add %[d], %[d], %[skip]", "addi %[n], %[n], -1", "bnez %[n], 1b"),
        *(_AGAIN, *(f"vse32.v {SUMS[i]}, (%[s{i}])" for i in named)),
    ]
    at, temporary = (", *at", ', [at] "=&r"(at)') if count > 1 else ("", "")
    stepped = f', [step] "r"({size}step)' if count > 1 else ""
    places = ", ".join(f'[s{i}] "r"(sums + {f"{i} * apart + " if i else ""}c)' for i in named)
    return f"""        for (int32_t c = 0, vl; c < channels; c += vl) {{
            const void *d = data + c, *w = weights + c{at};
            int32_t n = rows, m;
            __asm__ volatile(
{assembly(lines, 16)}
                : [vl] "=&r"(vl), [d] "+&r"(d), [w] "+&r"(w), [n] "+&r"(n), [m] "=&r"(m){temporary}
                : {places}, [left] "r"(channels - c), [columns] "r"(columns), [column] "r"({size}column),
                  [between] "r"(between), [skip] "r"(skip){stepped}
                : VECTORS);
        }}"""


def _multiply_taps(dtype: str) -> tuple[str, str]:
    """The sums of products of channels, of which the data have the dtype."""
    skip = "2 * (row - columns * column)" if dtype == "int16" else "row - columns * column"
    vectors = f"""    const int32_t skip = {skip}, apart = (channels + 7) / 8 * 8;
    for (; outputs >= {ROWS}; outputs -= {ROWS}, data += {ROWS} * step, sums += {ROWS} * apart) {{
{_all_taps(ROWS, dtype)}
    }}
    for (; outputs > 0; --outputs, data += step, sums += apart) {{
{_all_taps(1, dtype)}
    }}"""
    return rows.taps(f"multiply_taps_{dtype}_rvv", dtype, "", RVV, vectors)


def _requantize(name: str, factor: str, dtype: str = "uint8") -> tuple[str, str]:
    """Requantisation of the sums of a row: `factor` is the type of factors, a pointer or one number for all. Results of
    16 bits may leave them until the zero point is added."""
    each = "*" in factor
    store = [_HALVES, "vfncvt.x.f.w v0, v8", "vadd.vx v0, v0, %[z]", _BYTES, "vnsrl.wi v4, v0, 0", "vse8.v v4, (%[o])"]
    if dtype == "int16":
        store = ["vfcvt.x.f.v v8, v8", "vadd.vx v8, v8, %[z]", _HALVES, "vnsrl.wi v0, v8, 0", "vse16.v v0, (%[o])"]
    onward = ["add %[o], %[o], %[vl]", *["add %[o], %[o], %[vl]"] * (dtype == "int16")]
    lines = [
        *("1:", WORDS.format("%[n]"), "vle32.v v8, (%[s])", "vfcvt.f.x.v v8, v8"),
        *(["vle32.v v16, (%[f])", "vfmul.vv v8, v8, v16"] if each else ["vfmul.vf v8, v8, %[f]"]),
        *("vle32.v v16, (%[b])", "vfadd.vv v8, v8, v16", "vfmax.vf v8, v8, %[low]", "vfmin.vf v8, v8, %[high]"),
        *(*store, "sub %[n], %[n], %[vl]", *onward, "slli %[vl], %[vl], 2", "add %[s], %[s], %[vl]"),
        *("add %[b], %[b], %[vl]", *(["add %[f], %[f], %[vl]"] if each else []), "bnez %[n], 1b"),
    ]
    changed, taken = (', [f] "+&r"(f)', ", *f = factors") if each else ("", "")
    kept = "" if each else '[f] "f"(factor), '
    vectors = f"""        {dtype}_t *o = stored;
        const int32_t *s = sums;
        const float *b = biases{taken};
        int32_t n = count, vl;
        __asm__ volatile(
{assembly(lines)}
            : [vl] "=&r"(vl), [o] "+&r"(o), [s] "+&r"(s), [b] "+&r"(b), [n] "+&r"(n){changed}
            : {kept}[low] "f"(low), [high] "f"(high), [z] "r"(zero)
            : VECTORS);"""
    return rows.requantize(name, factor, "", RVV, vectors, dtype)


_MOVED = [
    *("1:", "vsetvli %[vl], %[n], e8, m8, ta, ma", "vle8.v v0, (%[s])", "vse8.v v0, (%[t])"),
    *("add %[s], %[s], %[vl]", "add %[t], %[t], %[vl]", "sub %[n], %[n], %[vl]", "bnez %[n], 1b"),
]

_COPY = f"""    int32_t vl;
    __asm__ volatile(
{assembly(_MOVED)}
            : [t] "+&r"(target), [s] "+&r"(source), [n] "+&r"(count), [vl] "=&r"(vl)
            :
            : VECTORS);"""

_FILLED = [
    *("vsetvli %[vl], zero, e8, m8, ta, ma", "vmv.v.x v0, %[b]"),
    *("1:", "vsetvli %[vl], %[n], e8, m8, ta, ma", "vse8.v v0, (%[t])"),
    *("add %[t], %[t], %[vl]", "sub %[n], %[n], %[vl]", "bnez %[n], 1b"),
]

_FILL = f"""    int32_t vl;
    __asm__ volatile(
{assembly(_FILLED)}
            : [t] "+&r"(target), [n] "+&r"(count), [vl] "=&r"(vl)
            : [b] "r"(byte)
            : VECTORS);"""

FUNCTIONS = [
    *(function(dtype) for dtype in _LOADS for function in (_multiply_row, _multiply_rows, _multiply_taps)),
    _requantize("requantize_rows_rvv", "const float *factors"),
    _requantize("requantize_rows_evenly_rvv", "float factor"),
    _requantize("requantize_rows_int16_rvv", "const float *factors", "int16"),
    _requantize("requantize_rows_evenly_int16_rvv", "float factor", "int16"),
    rows.copy("copy_bytes_rvv", RVV, _COPY, rows.COPIED),
    rows.fill("fill_bytes_rvv", RVV, _FILL),
]
"""The functions, by name."""

NAMES = frozenset(name for name, _ in FUNCTIONS)
"""The functions, which write through their first pointer only."""


def macros(text: str) -> str:
    """What the functions need, if `text` calls some."""
    return _MACROS if re.search(r"\b\w+_rvv\(", text) else ""
