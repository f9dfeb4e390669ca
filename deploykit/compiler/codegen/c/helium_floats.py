"""C functions on rows of float32 for CPUs with Helium, as `helium` has them for integers. Products and sums are one
instruction there, which rounds once; in plain C they are what the compiler makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deploykit.compiler.codegen.c import rows
from deploykit.compiler.codegen.c.helium import FLOATS, ONCE
from deploykit.compiler.codegen.c.rows import assembly
from deploykit.compiler.devices.helium import FLOAT_WIDTH, OUTPUTS


@dataclass(frozen=True)
class _Weights:
    """Weights of a dtype: the type of their pointer, the class of its register, how a vector of them is read, and how
    one of them is in plain C."""

    suffix: str
    c: str
    register: str
    read: Callable[[str], list[str]]
    plain: str = "{}"


_SINGLE = _Weights("", "float", "r", lambda q: [f"vldrw.32 {q}, [%[w]], #16"])
_WIDENED = {"q6": ".inst.w 0xfe3fce0d", "q7": ".inst.w 0xfe3fee0f"}
"""`vcvtb.f32.f16 q, q`: assemblers up to binutils 2.40 at least encode other registers."""
_HALF = _Weights(
    *("_half", "uint16_t", "l"),
    lambda q: [f"vldrh.u32 {q}, [%[w]], #8", _WIDENED[q]],
    plain="half_to_float({})",
)


def _products(outputs: int, kind: _Weights) -> str:
    """Adds products of `outputs` outputs to sums in q0 and on."""
    sums = range(2 * outputs)
    lines = [f"vldrw.32 q{i}, [%[s], #{16 * i}]" for i in sums]
    lines += ["wls lr, %[n], 2f", "1:", *kind.read("q6"), *kind.read("q7")]
    for o in range(outputs):
        lines += [f"ldr %[x], [%[d{o}]], #4", f"vfma.f32 q{2 * o}, q6, %[x]", f"vfma.f32 q{2 * o + 1}, q7, %[x]"]
    return assembly([*lines, "le lr, 1b", "2:", *(f"vstrw.32 q{i}, [%[s], #{16 * i}]" for i in sums)])


def _operands(outputs: int, kind: _Weights) -> str:
    data = "".join(f', [d{o}] "+&r"(d{o})' for o in range(outputs))
    clobbers = ", ".join(f'"q{i}"' for i in (*range(2 * outputs), 6, 7))
    return f""": [w] "+&{kind.register}"(w), [x] "=&r"(x){data}
            : [n] "r"(terms), [s] "r"(sums)
            : {clobbers}, "lr", "cc", "memory");"""


def _multiply_outputs(kind: _Weights) -> tuple[str, str]:
    name = f"multiply_outputs{kind.suffix}"
    factor = kind.plain.format(f"weights[k * {FLOAT_WIDTH} + j]")
    text = f"""/* Adds products of `terms` channels to the sums of outputs and {FLOAT_WIDTH} output channels.
   The data of outputs are `step` elements apart. */
{ONCE}static void {name}(
        float *sums, const float *data, int32_t step, int32_t outputs, const {kind.c} *weights, int32_t terms) {{
{FLOATS}
    for (; outputs >= {OUTPUTS}; outputs -= {OUTPUTS}, data += {OUTPUTS} * step, sums += {OUTPUTS * FLOAT_WIDTH}) {{
        const float *d0 = data, *d1 = d0 + step, *d2 = d1 + step;
        const {kind.c} *w = weights;
        uint32_t x;
        __asm__ volatile(
{_products(OUTPUTS, kind)}
            {_operands(OUTPUTS, kind)}
    }}
    for (; outputs > 0; --outputs, data += step, sums += {FLOAT_WIDTH}) {{
        const float *d0 = data;
        const {kind.c} *w = weights;
        uint32_t x;
        __asm__ volatile(
{_products(1, kind)}
            {_operands(1, kind)}
    }}
#else
    for (; outputs > 0; --outputs, data += step, sums += {FLOAT_WIDTH}) {{
        for (int32_t k = 0; k < terms; ++k) {{
            for (int32_t j = 0; j < {FLOAT_WIDTH}; ++j) {{
                sums[j] += data[k] * {factor};
            }}
        }}
    }}
#endif
}}
"""
    return name, text


def _taps(vectors: int, part: bool) -> str:
    """Sums over taps of vectors of channels, in q4 and on."""
    then = "t" if part else ""
    lines = [f"vmov.i32 q{4 + v}, #0" for v in range(vectors)]
    lines += ["ldr lr, %[left]", "vctp.32 lr"] if part else []
    lines += ["b 3f", "1:", "dls lr, %[columns]", "2:"]
    for v in range(vectors):
        lines += ["vpstt"] if part else []
        at = f", #{16 * v}" if v else ""
        lines += [f"vldrw{then}.32 q0, [%[d]{at}]", f"vldrw{then}.32 q1, [%[w]{at}]", f"vfma.f32 q{4 + v}, q0, q1"]
    lines += ["add %[d], %[d], %[column]", "add %[w], %[w], %[between]", "le lr, 2b"]
    lines += ["add %[d], %[d], %[skip]", "add %[w], %[w], %[omit]", "3:", "subs %[n], %[n], #1", "bge 1b"]
    return assembly([*lines, *(f"vstrw.32 q{4 + v}, [%[s]], #16" for v in range(vectors))])


def _of_taps(vectors: int, more: str = "") -> str:
    clobbers = ", ".join(f'"q{register}"' for register in (0, 1, *range(4, 4 + vectors)))
    return f""": [d] "+&r"(d), [w] "+&r"(w), [n] "+&r"(n), [s] "+&r"(sums)
                : [columns] "r"(columns), [column] "r"(4 * column), [between] "r"(4 * between), [skip] "r"(skip),
                  [omit] "r"(omit){more}
                : {clobbers}, "lr", "cc", "memory");"""


_TAPS = f"""    const int32_t skip = 4 * (row - columns * column), omit = 4 * (across - columns * between);
    for (; outputs > 0; --outputs, data += step) {{
        int32_t c = 0;
        for (; channels - c >= 16; c += 16) {{
            const float *d = data + c, *w = weights + c;
            int32_t n = columns > 0 ? rows : 0;
            __asm__ volatile(
{_taps(4, part=False)}
                {_of_taps(4)}
        }}
        for (; c < channels; c += 4) {{
            const float *d = data + c, *w = weights + c;
            const int32_t left = channels - c;
            int32_t n = columns > 0 ? rows : 0;
            __asm__ volatile(
{_taps(1, part=True)}
                {_of_taps(1, ', [left] "m"(left)')}
        }}
    }}"""

FUNCTIONS = [
    _multiply_outputs(_SINGLE),
    _multiply_outputs(_HALF),
    rows.float_taps("multiply_taps_float", ONCE, FLOATS, _TAPS),
]
"""The functions, by name."""

NAMES = frozenset(name for name, _ in FUNCTIONS)
"""The functions, which write through their first pointer only."""
