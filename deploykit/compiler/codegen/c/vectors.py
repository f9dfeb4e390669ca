"""C functions on vectors of four numbers, for CPUs with Helium; the same in plain C for others.

Elements of 8 bits are widened when they are loaded, and cut off when they are stored.
"""

from __future__ import annotations

import re

_HELIUM = "#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) != 0"

_TYPES = f"""{_HELIUM}
#include <arm_mve.h>
typedef float32x4_t f32x4;
typedef int32x4_t i32x4;
#else
typedef struct {{
    float lane[4];
}} f32x4;
typedef struct {{
    int32_t lane[4];
}} i32x4;
#endif

"""


def _function(result: str, name: str, params: str, helium: str, lane: str) -> tuple[str, str]:
    """A function whose lane `i` is `lane` in plain C."""
    plain = f"""    {result} result;
    for (int i = 0; i < 4; ++i) {{
        result.lane[i] = {lane};
    }}
    return result;"""
    text = f"static inline {result} {name}({params}) {{\n{_HELIUM}\n    return {helium};\n#else\n{plain}\n#endif\n}}\n"
    return name, text


def _store(name: str, element: str, kind: str, helium: str) -> tuple[str, str]:
    """A function that stores four elements."""
    text = f"""static inline void {name}({element} *to, {kind} x) {{
{_HELIUM}
    {helium};
#else
    for (int i = 0; i < 4; ++i) {{
        to[i] = ({element})x.lane[i];
    }}
#endif
}}
"""
    return name, text


def _wrapping(symbol: str) -> str:
    return f"(int32_t)((uint32_t)a.lane[i] {symbol} (uint32_t)b.lane[i])"


_FLOATS = "f32x4 a, f32x4 b"
_INTEGERS = "i32x4 a, i32x4 b"

FUNCTIONS = [
    _function("f32x4", "same_f32x4", "float x", "vdupq_n_f32(x)", "x"),
    _function("i32x4", "same_i32x4", "int32_t x", "vdupq_n_s32(x)", "x"),
    _function("f32x4", "load_f32x4", "const float *from", "vld1q_f32(from)", "from[i]"),
    _function("i32x4", "load_i32x4", "const int32_t *from", "vld1q_s32(from)", "from[i]"),
    _function("i32x4", "load_i8x4", "const int8_t *from", "vldrbq_s32(from)", "from[i]"),
    _function("i32x4", "load_u8x4", "const uint8_t *from", "vreinterpretq_s32_u32(vldrbq_u32(from))", "from[i]"),
    _store("store_f32x4", "float", "f32x4", "vst1q_f32(to, x)"),
    _store("store_i32x4", "int32_t", "i32x4", "vst1q_s32(to, x)"),
    _store("store_i8x4", "int8_t", "i32x4", "vstrbq_s32(to, x)"),
    _store("store_u8x4", "uint8_t", "i32x4", "vstrbq_u32(to, vreinterpretq_u32_s32(x))"),
    *(
        _function("f32x4", f"{name}_f32x4", _FLOATS, f"v{name}q_f32(a, b)", f"a.lane[i] {symbol} b.lane[i]")
        for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"))
    ),
    *(
        _function("i32x4", f"{name}_i32x4", _INTEGERS, f"v{name}q_s32(a, b)", _wrapping(symbol))
        for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"))
    ),
    *(
        _function(
            "f32x4",
            f"{name}_f32x4",
            _FLOATS,
            f"v{name}nmq_f32(a, b)",
            f"a.lane[i] {symbol} b.lane[i] ? a.lane[i] : b.lane[i]",
        )
        for name, symbol in (("min", "<"), ("max", ">"))
    ),
    _function(
        "f32x4",
        "at_least_f32x4",
        _FLOATS,
        "vpselq_f32(b, a, vcmpgtq_f32(b, a))",
        "a.lane[i] < b.lane[i] ? b.lane[i] : a.lane[i]",
    ),
    _function("f32x4", "float_i32x4", "i32x4 a", "vcvtq_f32_s32(a)", "(float)a.lane[i]"),
    _function("i32x4", "round_f32x4", "f32x4 a", "vcvtnq_s32_f32(a)", "f32_to_i32(nearbyintf(a.lane[i]))"),
    _function(
        "i32x4",
        "narrow_i8x4",
        "i32x4 a",
        "vmovlbq_s16(vmovlbq_s8(vreinterpretq_s8_s32(a)))",
        "(int8_t)a.lane[i]",
    ),
    _function("i32x4", "narrow_u8x4", "i32x4 a", "vandq_s32(a, vdupq_n_s32(255))", "(uint8_t)a.lane[i]"),
]
"""The functions, by name."""

NAMES = frozenset(name for name, _ in FUNCTIONS)
"""The functions, which write through their first pointer only, if their names start with `store`."""


def types(text: str) -> str:
    """The types of vectors, if functions of which `text` consists compute on such."""
    return _TYPES if re.search(r"\b\w+_[fiu]\d+x4\(", text) else ""
