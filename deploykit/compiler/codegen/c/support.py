"""C functions that printed kernels call. Only those that are used are emitted.

`definitions(text)` gives the functions that `text` calls, directly or through one another, in an order that compiles.
All functions are total: no argument makes their behaviour undefined.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from deploykit.compiler.codegen.c import helium, helium_floats, rvv, rvv_floats, rvv_strips, vectors, words


class _Integer(NamedTuple):
    """An integer type: `i32`, `int32_t`, 32, and the unsigned type in which its arithmetic is done without overflow."""

    name: str
    c: str
    bits: int
    unsigned: str

    @property
    def signed(self) -> bool:
        return self.name.startswith("i")


_INTEGERS = [
    _Integer(f"{letter}{bits}", f"{sign}int{bits}_t", bits, f"uint{max(bits, 32)}_t")
    for letter, sign in (("i", ""), ("u", "u"))
    for bits in (8, 16, 32, 64)
]


def _function(result: str, name: str, params: str, body: str) -> tuple[str, str]:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return name, f"static inline {result} {name}({params}) {{\n{lines}\n}}\n"


def _wrapping(t: _Integer) -> list[tuple[str, str]]:
    """Addition, subtraction and multiplication in two's complement."""
    return [
        _function(
            t.c, f"{name}_{t.name}", f"{t.c} a, {t.c} b", f"return ({t.c})(({t.unsigned})a {op} ({t.unsigned})b);"
        )
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*"))
    ]


def _divisions(t: _Integer) -> list[tuple[str, str]]:
    """Division and remainder, rounding towards zero and towards minus infinity. Both give 0 for a zero divisor."""
    params = f"{t.c} a, {t.c} b"
    if not t.signed:
        return [
            _function(t.c, f"{kind}_{t.name}", params, f"return (b == 0) ? 0 : ({t.c})(a {op} b);")
            for kind, op in (("div", "/"), ("mod", "%"), ("floordiv", "/"), ("floormod", "%"))
        ]
    bodies = {
        "div": f"""
if (b == -1) {{ /* the quotient of the smallest number overflows */
    return ({t.c})(0 - ({t.unsigned})a);
}}
return (b == 0) ? 0 : ({t.c})(a / b);
""",
        "mod": f"return ((b == 0) || (b == -1)) ? 0 : ({t.c})(a % b);",
        "floordiv": f"""
const {t.c} quotient = div_{t.name}(a, b);
return ((mod_{t.name}(a, b) != 0) && ((a < 0) != (b < 0))) ? ({t.c})(quotient - 1) : quotient;
""",
        "floormod": f"""
const {t.c} rest = mod_{t.name}(a, b);
return ((rest != 0) && ((rest < 0) != (b < 0))) ? ({t.c})(rest + b) : rest;
""",
    }
    return [_function(t.c, f"{kind}_{t.name}", params, body) for kind, body in bodies.items()]


def _extrema(name: str, c: str) -> list[tuple[str, str]]:
    return [
        _function(c, f"min_{name}", f"{c} a, {c} b", "return (a < b) ? a : b;"),
        _function(c, f"max_{name}", f"{c} a, {c} b", "return (a > b) ? a : b;"),
    ]


def _extrema_or_nan(name: str, c: str) -> list[tuple[str, str]]:
    """Maxima and minima that are NaN if an operand is."""
    return [
        _function(c, f"minimum_{name}", f"{c} a, {c} b", "return ((a < b) || isnan(a)) ? a : b;"),
        _function(c, f"maximum_{name}", f"{c} a, {c} b", "return ((a > b) || isnan(a)) ? a : b;"),
    ]


def _shifts(t: _Integer) -> list[tuple[str, str]]:
    """Shifts. By less than 0, or by the width or more, they leave 0, or -1 for the right shift of a negative number."""
    params = f"{t.c} a, {t.c} b"
    beyond = f"((b < 0) || (b >= {t.bits}))" if t.signed else f"(b >= {t.bits})"
    left = f"return {beyond} ? 0 : ({t.c})(({t.unsigned})a << b);"
    right = f"return {beyond} ? 0 : ({t.c})(a >> b);"
    if t.signed:
        right = f"""
const int distance = {beyond} ? {t.bits - 1} : (int)b;
return ({t.c})((a < 0) ? ~(~a >> distance) : (a >> distance));
"""
    return [
        _function(t.c, f"shl_{t.name}", params, left),
        _function(t.c, f"shr_{t.name}", params, right),
    ]


def _bit_counts(t: _Integer) -> list[tuple[str, str]]:
    plain = f"uint{t.bits}_t"
    popcount = f"""
{plain} rest = ({plain})x;
int ones = 0;
for (; rest != 0; rest &= ({plain})(rest - 1)) {{
    ++ones;
}}
return ({t.c})ones;
"""
    clz = f"""
{plain} rest = ({plain})x;
int zeros = {t.bits};
for (; rest != 0; rest >>= 1) {{
    --zeros;
}}
return zeros;
"""
    return [
        _function(t.c, f"popcount_{t.name}", f"{t.c} x", popcount),
        _function("int32_t", f"clz_{t.name}", f"{t.c} x", clz),
    ]


def _saturating(t: _Integer, source: str, c: str) -> tuple[str, str]:
    """A cast that truncates towards zero. Out of range it gives the nearest end of the range; for NaN it gives 0."""
    digits, suffix = (24, "f") if source == "f32" else (53, "")
    lowest = -(2 ** (t.bits - 1)) if t.signed else 0
    above = f"{float(lowest + 2**t.bits)!r}{suffix}"
    below = (
        f"x <= {float(lowest - 1)!r}{suffix}" if t.bits <= digits or not t.signed else f"x < {float(lowest)!r}{suffix}"
    )
    body = f"""
if (!(x < {above})) {{
    return (x >= {above}) ? {t.c.upper()[:-2]}_MAX : 0;
}}
return ({below}) ? {f"INT{t.bits}_MIN" if t.signed else "0"} : ({t.c})x;
"""
    return _function(t.c, f"{source}_to_{t.name}", f"{c} x", body)


def _reinterpreting() -> list[tuple[str, str]]:
    """Functions that see the bytes of a value as another type of the same width."""
    groups = {bits: [(t.name, t.c) for t in _INTEGERS if t.bits == bits] for bits in (8, 16, 32, 64)}
    groups[32].append(("f32", "float"))
    groups[64].append(("f64", "double"))
    return [
        _function(target, f"{a}_as_{b}", f"{source} x", f"{target} y;\n(void)memcpy(&y, &x, sizeof y);\nreturn y;")
        for group in groups.values()
        for a, source in group
        for b, target in group
        if a != b
    ]


_CONVERTS = "#if defined(__arm__) && defined(__ARM_FP) && defined(__ARM_FEATURE_FMA) && defined(__GNUC__)"
"""Whether a core of Arm has instructions between half and single precision, as all with fused products have: VFPv4."""

_HALF_TO_FLOAT = f"""
{_CONVERTS}
const uint32_t half = h;
float number;
(void)memcpy(&number, &half, sizeof number);
__asm__("vcvtb.f32.f16 %0, %0" : "+t"(number));
return number;
#else
const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
const uint32_t magnitude = h & 0x7fffu;
uint32_t bits;
float value;
if (magnitude < 0x0400u) {{ /* zero or subnormal: a multiple of 2^-24 */
    value = (float)magnitude * 5.9604644775390625e-08f;
    (void)memcpy(&bits, &value, sizeof bits);
}} else if (magnitude < 0x7c00u) {{
    bits = (magnitude << 13) + 0x38000000u;
}} else {{ /* infinity or NaN */
    bits = (magnitude << 13) + 0x70000000u;
}}
bits |= sign;
(void)memcpy(&value, &bits, sizeof value);
return value;
#endif
"""

_FLOAT_TO_HALF = f"""
uint32_t bits;
(void)memcpy(&bits, &value, sizeof bits);
const uint32_t sign = (bits >> 16) & 0x8000u;
uint32_t magnitude = bits & 0x7fffffffu;
if (magnitude > 0x7f800000u) {{ /* NaN */
    return (uint16_t)(sign | 0x7e00u);
}}
{_CONVERTS}
__asm__("vcvtb.f16.f32 %0, %0" : "+t"(value));
(void)memcpy(&magnitude, &value, sizeof magnitude);
return (uint16_t)magnitude;
#else
if (magnitude >= 0x47800000u) {{ /* 65536 and above */
    return (uint16_t)(sign | 0x7c00u);
}}
if (magnitude < 0x38800000u) {{ /* below 2^-14: adding 0.5 rounds to a multiple of 2^-24 */
    float shifted;
    (void)memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += 0.5f;
    (void)memcpy(&bits, &shifted, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000u));
}}
magnitude += 0x00000fffu + ((magnitude >> 13) & 1u);
return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
#endif
"""

_DOUBLE_TO_HALF = """
float nearest = (float)value;
uint32_t bits;
(void)memcpy(&bits, &nearest, sizeof bits);
if (((double)nearest != value) && ((bits & 1u) == 0u) && (value == value)) { /* keep a trace of what was cut off */
    bits += (fabs((double)nearest) > fabs(value)) ? UINT32_MAX : 1u;
    (void)memcpy(&nearest, &bits, sizeof nearest);
}
return float_to_half(nearest);
"""


def _half() -> list[tuple[str, str]]:
    return [
        _function("float", "half_to_float", "uint16_t h", _HALF_TO_FLOAT),
        _function("uint16_t", "float_to_half", "float value", _FLOAT_TO_HALF),
        _function("float", "round_to_half", "float value", "return half_to_float(float_to_half(value));"),
        _function("uint16_t", "double_to_half", "double value", _DOUBLE_TO_HALF),
    ]


def _composed(name: str, c: str, suffix: str) -> list[tuple[str, str]]:
    """Functions of one variable that <math.h> lacks."""
    bodies = {
        "rsqrt": f"return 1.0{suffix} / sqrt{suffix}(x);",
        "sigmoid": f"return 1.0{suffix} / (1.0{suffix} + exp{suffix}(-x));",
        "exp10": f"return pow{suffix}(10.0{suffix}, x);",
    }
    return [_function(c, f"{function}_{name}", f"{c} x", body) for function, body in bodies.items()]


_NEAREST = """
float shifted = x + 12582912.0f; /* 3 * 2^22: the last place counts ones, from the bits 0x4b400000 on */
return f32_as_i32(shifted) - 0x4b400000;
""".strip()
"""The nearest integer, ties to even, of a number up to 2^22: less than a call of nearbyint."""


def _all() -> dict[str, str]:
    found = _half() + _reinterpreting()
    found += words.FUNCTIONS + helium.FUNCTIONS + helium_floats.FUNCTIONS + vectors.FUNCTIONS
    found += rvv.FUNCTIONS + rvv_floats.FUNCTIONS + rvv_strips.FUNCTIONS
    found.append(_function("int32_t", "nearest_i32", "float x", _NEAREST))
    for t in _INTEGERS:
        found += _divisions(t) + _extrema(t.name, t.c) + _shifts(t) + _bit_counts(t)
        found += [_saturating(t, "f32", "float"), _saturating(t, "f64", "double")]
        if t.signed and t.bits >= 32:
            found += _wrapping(t)
    for name, c, suffix in (("f32", "float", "f"), ("f64", "double", "")):
        found += _extrema(name, c) + _extrema_or_nan(name, c) + _composed(name, c, suffix)
    return dict(found)


_DEFINITIONS = _all()
NAMES = frozenset(_DEFINITIONS)
"""The names of all support functions."""


def definitions(text: str) -> str:
    """The support functions that `text` needs, each once, callees first; ends with a blank line unless empty."""
    needed: list[str] = []

    def require(code: str) -> None:
        for name in re.findall(r"\b([a-z]\w*)\(", code):
            if name in _DEFINITIONS and name not in needed:
                body = _DEFINITIONS[name].split("{", 1)[1]
                require(body)
                needed.append(name)

    require(text)
    return "".join(f"{_DEFINITIONS[name]}\n" for name in needed)
