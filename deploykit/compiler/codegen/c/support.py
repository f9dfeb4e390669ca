"""C functions that printed kernels call, emitted only when used.

`definitions(text)` gives those that `text` calls, directly or through one another, in an order that compiles. All of
them are total: no argument makes their behaviour undefined.
"""

from __future__ import annotations

import re

_SIGNED = (32, 64)
_INTEGERS = [(f"{sign}{bits}", f"{name}int{bits}_t", bits) for sign, name in (("i", ""), ("u", "u")) for bits in (8, 16, 32, 64)]


def _function(result: str, name: str, params: str, body: str) -> tuple[str, str]:
    lines = "\n".join(f"    {line}" if line else "" for line in body.strip().splitlines())
    return name, f"static inline {result} {name}({params}) {{\n{lines}\n}}\n"


def _wrapping(bits: int) -> list[tuple[str, str]]:
    """Two's complement arithmetic."""
    c, u = f"int{bits}_t", f"uint{bits}_t"
    return [
        _function(c, f"{name}_i{bits}", f"{c} a, {c} b", f"return ({c})(({u})a {op} ({u})b);")
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*"))
    ]


def _divisions(name: str, c: str, bits: int) -> list[tuple[str, str]]:
    """Division and remainder, towards zero and towards minus infinity; by zero both give 0."""
    params = f"{c} a, {c} b"
    if name.startswith("u"):
        return [
            _function(c, f"{kind}_{name}", params, f"return b == 0 ? 0 : ({c})(a {op} b);")
            for kind, op in (("div", "/"), ("mod", "%"), ("floordiv", "/"), ("floormod", "%"))
        ]
    negated = f"({c})(0 - (uint{max(bits, 32)}_t)a)"
    return [
        _function(c, f"div_{name}", params, f"if (b == 0 || b == -1) {{\n    return b == 0 ? 0 : {negated};\n}}\nreturn ({c})(a / b);"),
        _function(c, f"mod_{name}", params, f"return b == 0 || b == -1 ? 0 : ({c})(a % b);"),
        _function(
            c, f"floordiv_{name}", params,
            f"const {c} q = div_{name}(a, b);\nreturn mod_{name}(a, b) != 0 && (a < 0) != (b < 0) ? ({c})(q - 1) : q;",
        ),
        _function(
            c, f"floormod_{name}", params,
            f"const {c} r = mod_{name}(a, b);\nreturn r != 0 && (r < 0) != (b < 0) ? ({c})(r + b) : r;",
        ),
    ]  # fmt: skip


def _extrema(name: str, c: str) -> list[tuple[str, str]]:
    return [
        _function(c, f"min_{name}", f"{c} a, {c} b", "return a < b ? a : b;"),
        _function(c, f"max_{name}", f"{c} a, {c} b", "return a > b ? a : b;"),
    ]


def _shifts(name: str, c: str, bits: int) -> list[tuple[str, str]]:
    """Shifts by `bits` or more leave 0, or the sign."""
    wide = f"uint{max(bits, 32)}_t"
    range_check = f"b >= {bits}" if name.startswith("u") else f"b < 0 || b >= {bits}"
    left = f"return {range_check} ? 0 : ({c})(({wide})a << b);"
    if name.startswith("u"):
        right = f"return {range_check} ? 0 : ({c})(a >> b);"
    else:
        right = (
            f"const int n = {range_check} ? {bits - 1} : (int)b;\n"
            f"return ({c})(a < 0 ? ~(~a >> n) : a >> n);"
        )
    return [
        _function(c, f"shl_{name}", f"{c} a, {c} b", left),
        _function(c, f"shr_{name}", f"{c} a, {c} b", right),
    ]


def _bit_counts(name: str, c: str, bits: int) -> list[tuple[str, str]]:
    popcount = f"uint{bits}_t rest = (uint{bits}_t)x;\nint n = 0;\nfor (; rest != 0; rest &= (uint{bits}_t)(rest - 1)) {{\n    ++n;\n}}\nreturn ({c})n;"
    clz = f"uint{bits}_t rest = (uint{bits}_t)x;\nint n = {bits};\nfor (; rest != 0; rest >>= 1) {{\n    --n;\n}}\nreturn n;"
    return [
        _function(c, f"popcount_{name}", f"{c} x", popcount),
        _function("int32_t", f"clz_{name}", f"{c} x", clz),
    ]


def _saturating(source: str, float_type: str, name: str, c: str, bits: int) -> tuple[str, str]:
    """Truncate towards zero; out of range gives the nearest end of the range, NaN gives 0."""
    suffix = "f" if source == "f32" else ""
    if name.startswith("u"):
        low, lowest, above = f"-1.0{suffix}", "0", f"{2.0**bits!r}{suffix}"
        largest = f"UINT{bits}_MAX"
        below = f"x <= {low}"
    else:
        low, lowest, above = f"{-(2.0 ** (bits - 1))!r}{suffix}", f"INT{bits}_MIN", f"{2.0 ** (bits - 1)!r}{suffix}"
        largest = f"INT{bits}_MAX"
        exact = bits < 24 or (bits < 53 and source == "f64")
        below = f"x <= {-(2.0 ** (bits - 1)) - 1!r}{suffix}" if exact else f"x < {low}"
    body = (
        f"if (!(x < {above})) {{\n    return x >= {above} ? {largest} : 0;\n}}\n"
        f"return {below} ? {lowest} : ({c})x;"
    )
    return _function(c, f"{source}_to_{name}", f"{float_type} x", body)


def _reinterpreting(source: str, source_type: str, target: str, target_type: str) -> tuple[str, str]:
    body = f"{target_type} y;\nmemcpy(&y, &x, sizeof y);\nreturn y;"
    return _function(target_type, f"{source}_as_{target}", f"{source_type} x", body)


def _same_width() -> list[tuple[str, str]]:
    groups = {bits: [(n, c) for n, c, b in _INTEGERS if b == bits] for bits in (8, 16, 32, 64)}
    groups[32].append(("f32", "float"))
    groups[64].append(("f64", "double"))
    return [_reinterpreting(*a, *b) for group in groups.values() for a in group for b in group if a != b]


_HALF = [
    _function(
        "float", "half_to_float", "uint16_t h",
        """
const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
const uint32_t magnitude = h & 0x7fffu;
uint32_t bits;
float value;
if (magnitude < 0x0400u) { /* zero or subnormal: a multiple of 2^-24 */
    value = (float)magnitude * 5.9604644775390625e-08f;
    memcpy(&bits, &value, sizeof bits);
} else if (magnitude < 0x7c00u) {
    bits = (magnitude << 13) + 0x38000000u;
} else { /* infinity or NaN */
    bits = (magnitude << 13) + 0x70000000u;
}
bits |= sign;
memcpy(&value, &bits, sizeof value);
return value;
""",
    ),
    _function(
        "uint16_t", "float_to_half", "float value",
        """
uint32_t bits;
memcpy(&bits, &value, sizeof bits);
const uint32_t sign = (bits >> 16) & 0x8000u;
uint32_t magnitude = bits & 0x7fffffffu;
if (magnitude > 0x7f800000u) { /* NaN */
    return (uint16_t)(sign | 0x7e00u);
}
if (magnitude >= 0x47800000u) { /* 65536 and above */
    return (uint16_t)(sign | 0x7c00u);
}
if (magnitude < 0x38800000u) { /* below 2^-14: adding 0.5 rounds to a multiple of 2^-24 */
    float shifted;
    memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += 0.5f;
    memcpy(&bits, &shifted, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000u));
}
magnitude += 0x00000fffu + ((magnitude >> 13) & 1u);
return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
""",
    ),
    _function("float", "round_to_half", "float value", "return half_to_float(float_to_half(value));"),
    _function(
        "uint16_t", "double_to_half", "double value",
        """
float nearest = (float)value;
uint32_t bits;
memcpy(&bits, &nearest, sizeof bits);
if ((double)nearest != value && (bits & 1u) == 0u && value == value) { /* keep a trace of what was cut off */
    bits += fabs((double)nearest) > fabs(value) ? UINT32_MAX : 1u;
    memcpy(&nearest, &bits, sizeof nearest);
}
return float_to_half(nearest);
""",
    ),
]  # fmt: skip


def _all() -> dict[str, str]:
    found = list(_HALF)
    for bits in _SIGNED:
        found += _wrapping(bits)
    for name, c, bits in _INTEGERS:
        found += _divisions(name, c, bits) + _extrema(name, c) + _shifts(name, c, bits) + _bit_counts(name, c, bits)
        found += [_saturating("f32", "float", name, c, bits), _saturating("f64", "double", name, c, bits)]
    found += _same_width()
    for name, c, suffix in (("f32", "float", "f"), ("f64", "double", "")):
        found += _extrema(name, c)
        found.append(_function(c, f"rsqrt_{name}", f"{c} x", f"return 1.0{suffix} / sqrt{suffix}(x);"))
        found.append(_function(c, f"sigmoid_{name}", f"{c} x", f"return 1.0{suffix} / (1.0{suffix} + exp{suffix}(-x));"))
        found.append(_function(c, f"exp10_{name}", f"{c} x", f"return pow{suffix}(10.0{suffix}, x);"))
    return dict(found)


_DEFINITIONS = _all()


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
