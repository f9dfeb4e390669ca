"""C functions that do one operation on neighbouring numbers, for CPUs with the V extension of RISC-V, as `rvv` has them
for sums of products. Integers of 8 bits are widened when they are loaded, and cut off when they are stored.

Each writes through its first pointer only, where its operands may be, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploykit.compiler.codegen.c.rows import assembly
from deploykit.compiler.codegen.c.rvv import RVV

_TYPES = {"f32": "float", "i32": "int32_t", "i8": "int8_t", "u8": "uint8_t"}
_BITS = {"f32": 32, "i32": 32, "i8": 8, "u8": 8}


@dataclass(frozen=True)
class _Operation:
    """A function from strips of the kind `source`, of which there are `operands`, to one of the kind `target`. With
    `same` there is a further operand that is one number, of this kind. `lines` change vectors from v8 on, with those
    from v16 on, or the number %[y]; `plain` is an element in plain C, of `a[i]` and `b[i]`, or `y`."""

    name: str
    source: str
    target: str
    operands: int
    lines: Sequence[str]
    plain: str
    same: str = ""

    def function(self) -> tuple[str, str]:
        names = "ab"[: self.operands]
        taken = "".join(f"const {_TYPES[self.source]} *{name}, " for name in names)
        taken += f"{_TYPES[self.same]} y, " if self.same else ""
        places = [*zip(names, ("v8", "v16"), strict=False)]
        loads = [f"vle{_BITS[self.source]}.v {to}, (%[{name}])" for name, to in places]
        lines = [
            *("blez %[n], 2f", "1:", "vsetvli %[vl], %[n], e32, m8, ta, mu", *loads, *self.lines),
            *(*self._onward(names), "bnez %[n], 1b", "2:"),
        ]
        text = f"""static void {self.name}_rvv({_TYPES[self.target]} *to, {taken}int32_t count) {{
{RVV}
    int32_t vl;
    __asm__ volatile(
{assembly(lines)}
            : [vl] "=&r"(vl), [t] "+&r"(to), [n] "+&r"(count){"".join(f', [{name}] "+&r"({name})' for name in names)}
            : {f'[y] "{"f" if self.same == "f32" else "r"}"(y)' if self.same else ""}
            : VECTORS);
#else
    for (int32_t i = 0; i < count; ++i) {{
        to[i] = {self.plain};
    }}
#endif
}}
"""
        return f"{self.name}_rvv", text

    def _onward(self, names: str) -> list[str]:
        """The store, and the steps of all pointers."""
        steps = ["sub %[n], %[n], %[vl]"]
        moved = sorted([("t", _BITS[self.target]), *((name, _BITS[self.source]) for name in names)], key=lambda m: m[1])
        for number, (name, bits) in enumerate(moved):
            if bits == 32 and (number == 0 or moved[number - 1][1] == 8):
                steps.append("slli %[vl], %[vl], 2")
            steps.append(f"add %[{name}], %[{name}], %[vl]")
        return [f"vse{_BITS[self.target]}.v v8, (%[t])", *steps]


def _arithmetic() -> list[_Operation]:
    """Sums, differences and products of two strips, and of a strip and a number."""
    found = []
    for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*")):
        for kind, letter in (("f32", "f"), ("i32", "")):
            end, scalar = ("f", "vf") if kind == "f32" else ("", "vx")
            both, one, turned = (f"{x} {symbol} {y}" for x, y in (("a[i]", "b[i]"), ("a[i]", "y"), ("y", "a[i]")))
            if kind == "i32":
                both, one, turned = (_wrapping(text, symbol) for text in (both, one, turned))
            vector = f"v{letter}{name}"
            found.append(_Operation(f"{name}_{kind}", kind, kind, 2, [f"{vector}.vv v8, v8, v16"], both))
            lines = [f"{vector}.{scalar} v8, v8, %[y]"]
            found.append(_Operation(f"{name}_{kind}_same", kind, kind, 1, lines, one, kind))
            if name == "sub":
                lines = [f"v{end}rsub.{scalar} v8, v8, %[y]"]
                found.append(_Operation(f"from_{kind}_same", kind, kind, 1, lines, turned, kind))
    return found


def _wrapping(text: str, symbol: str) -> str:
    a, b = text.split(f" {symbol} ")
    return f"(int32_t)((uint32_t){a} {symbol} (uint32_t){b})"


def _unary(name: str, source: str, target: str, lines: Sequence[str], plain: str) -> _Operation:
    return _Operation(name, source, target, 1, lines, plain)


def _limit(name: str, lines: Sequence[str], plain: str) -> _Operation:
    return _Operation(f"{name}_f32_same", "f32", "f32", 1, lines, plain, "f32")


_ROUND = ["vmfeq.vv v0, v8, v8", "vmv.v.i v16, 0", "vfcvt.x.f.v v16, v8, v0.t", "vmv.v.v v8, v16"]
"""Integers nearest to numbers, and 0 for what is none."""

_CUT = ["vsetvli zero, zero, e16, m4, ta, ma", "vnsrl.wi v16, v8, 0"]
_CUT += ["vsetvli zero, zero, e8, m2, ta, ma", "vnsrl.wi v8, v16, 0"]

FUNCTIONS = [
    operation.function()
    for operation in (
        *_arithmetic(),
        _limit("min", ["vfmin.vf v8, v8, %[y]"], "a[i] < y ? a[i] : y"),
        _limit("max", ["vfmax.vf v8, v8, %[y]"], "a[i] > y ? a[i] : y"),
        _limit("at_least", ["vmflt.vf v0, v8, %[y]", "vfmerge.vfm v8, v8, %[y], v0"], "a[i] < y ? y : a[i]"),
        _unary("float_i32", "i32", "f32", ["vfcvt.f.x.v v8, v8"], "(float)a[i]"),
        _unary("round_f32", "f32", "i32", _ROUND, "f32_to_i32(nearbyintf(a[i]))"),
        _unary("narrow_i8", "i32", "i32", ["vsll.vi v8, v8, 24", "vsra.vi v8, v8, 24"], "(int8_t)a[i]"),
        _unary("narrow_u8", "i32", "i32", ["vsll.vi v8, v8, 24", "vsrl.vi v8, v8, 24"], "(uint8_t)a[i]"),
        _unary("load_i8", "i8", "i32", ["vmv2r.v v16, v8", "vsext.vf4 v8, v16"], "a[i]"),
        _unary("load_u8", "u8", "i32", ["vmv2r.v v16, v8", "vzext.vf4 v8, v16"], "a[i]"),
        _unary("store_f32", "f32", "f32", [], "a[i]"),
        _unary("store_i32", "i32", "i32", [], "a[i]"),
        _unary("store_i8", "i32", "i8", _CUT, "(int8_t)a[i]"),
        _unary("store_u8", "i32", "u8", _CUT, "(uint8_t)a[i]"),
        _Operation("fill_f32", "f32", "f32", 0, ["vfmv.v.f v8, %[y]"], "y", "f32"),
        _Operation("fill_i32", "i32", "i32", 0, ["vmv.v.x v8, %[y]"], "y", "i32"),
        _Operation("fill_i8", "i32", "i8", 0, ["vmv.v.x v8, %[y]", *_CUT], "(int8_t)y", "i32"),
        _Operation("fill_u8", "i32", "u8", 0, ["vmv.v.x v8, %[y]", *_CUT], "(uint8_t)y", "i32"),
    )
]
"""The functions, by name."""

NAMES = frozenset(name for name, _ in FUNCTIONS)
"""The functions, which write through their first pointer only."""
