"""C functions on rows of float32 for CPUs with the V extension of RISC-V, as `rvv` has them for integers. Products and
sums are one instruction there, which rounds once; in plain C they are what the compiler makes of them."""

from __future__ import annotations

from deploykit.compiler.codegen.c import rows
from deploykit.compiler.codegen.c.rows import assembly
from deploykit.compiler.codegen.c.rvv import RVV, SUMS, WORDS
from deploykit.compiler.devices.rvv import FLOAT_ROWS

_TOGETHER = 4
"""The terms of an iteration."""


def _term(count: int, term: int) -> list[str]:
    """Adds the products of a term to the sums of `count` outputs."""
    named = range(count)
    return [
        *("vle32.v v0, (%[w])", "add %[w], %[w], %[step]"),
        *(f"flw %[x{i}], {4 * term}(%[d{i}])" for i in named),
        *(f"vfmacc.vf {SUMS[i]}, %[x{i}], v0" for i in named),
    ]


def _multiply(count: int) -> str:
    """Inline assembly for the sums of `count` outputs and of columns that fill eight vectors."""
    named = range(count)
    together = [line for term in range(_TOGETHER) for line in _term(count, term)]

    def onward(terms: int) -> list[str]:
        return [*(f"addi %[d{i}], %[d{i}], {4 * terms}" for i in named), f"addi %[n], %[n], -{terms}"]

    lines = [
        *(WORDS.format("%[left]"), *(f"vle32.v {SUMS[i]}, (%[s{i}])" for i in named)),
        *(f"addi %[n], %[n], -{_TOGETHER}", "bltz %[n], 2f"),
        *("1:", *together, *onward(_TOGETHER), "bgez %[n], 1b"),
        *("2:", f"addi %[n], %[n], {_TOGETHER}", "blez %[n], 4f"),
        *("3:", *_term(count, 0), *onward(1), "bnez %[n], 3b"),
        *("4:", *(f"vse32.v {SUMS[i]}, (%[s{i}])" for i in named)),
    ]
    places = ", ".join(f"*d{i} = data{f' + {i} * step' if i else ''}" for i in named)
    changed = ", ".join(f'[d{i}] "+&r"(d{i}), [x{i}] "=&f"(x{i})' for i in named)
    sums = ", ".join(f'[s{i}] "r"(sums + {f"{i} * width + " if i else ""}j)' for i in named)
    return f"""        for (int32_t j = 0, vl; j < width; j += vl) {{
            const float {places}, *w = weights + j;
            float {", ".join(f"x{i}" for i in named)};
            int32_t n = terms;
            __asm__ volatile(
{assembly(lines, 16)}
                : [vl] "=&r"(vl), [w] "+&r"(w), [n] "+&r"(n), {changed}
                : {sums}, [left] "r"(width - j), [step] "r"(4 * width)
                : VECTORS);
        }}"""


_MULTIPLY_OUTPUTS = f"""/* Adds products of `terms` channels to the sums of outputs and `width` output channels.
   The data of outputs are `step` elements apart. */
static void multiply_outputs_rvv(
        float *sums, const float *data, int32_t step, int32_t outputs, const float *weights, int32_t terms,
        int32_t width) {{
{RVV}
    for (; outputs >= {FLOAT_ROWS}; outputs -= {FLOAT_ROWS}, data += {FLOAT_ROWS} * step) {{
{_multiply(FLOAT_ROWS)}
        sums += {FLOAT_ROWS} * width;
    }}
    for (; outputs > 0; --outputs, data += step, sums += width) {{
{_multiply(1)}
    }}
#else
    for (; outputs > 0; --outputs, data += step, sums += width) {{
        for (int32_t k = 0; k < terms; ++k) {{
            for (int32_t j = 0; j < width; ++j) {{
                sums[j] += data[k] * weights[k * width + j];
            }}
        }}
    }}
#endif
}}
"""

_SUMS_OF_TAPS = [
    *(WORDS.format("%[left]"), "vmv.v.i v8, 0", "j 3f", "1:", "mv %[m], %[columns]", "2:"),
    *("vle32.v v0, (%[d])", "vle32.v v16, (%[w])", "add %[d], %[d], %[column]", "add %[w], %[w], %[between]"),
    *("vfmacc.vv v8, v0, v16", "addi %[m], %[m], -1", "bnez %[m], 2b"),
    *("add %[d], %[d], %[skip]", "add %[w], %[w], %[omit]"),
    *("3:", "addi %[n], %[n], -1", "bgez %[n], 1b", "vse32.v v8, (%[s])"),
]

_TAPS = f"""    const int32_t skip = 4 * (row - columns * column), omit = 4 * (across - columns * between);
    for (; outputs > 0; --outputs, data += step, sums += (channels + 3) / 4 * 4) {{
        for (int32_t c = 0, vl; c < channels; c += vl) {{
            const float *d = data + c, *w = weights + c;
            int32_t n = columns > 0 ? rows : 0, m;
            __asm__ volatile(
{assembly(_SUMS_OF_TAPS, 16)}
                : [vl] "=&r"(vl), [d] "+&r"(d), [w] "+&r"(w), [n] "+&r"(n), [m] "=&r"(m)
                : [s] "r"(sums + c), [left] "r"(channels - c), [columns] "r"(columns), [column] "r"(4 * column),
                  [between] "r"(4 * between), [skip] "r"(skip), [omit] "r"(omit)
                : VECTORS);
        }}
    }}"""

FUNCTIONS = [
    ("multiply_outputs_rvv", _MULTIPLY_OUTPUTS),
    rows.float_taps("multiply_taps_float_rvv", "", RVV, _TAPS),
]
"""The functions, by name."""

NAMES = frozenset(name for name, _ in FUNCTIONS)
"""The functions, which write through their first pointer only."""
