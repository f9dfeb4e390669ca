"""Rewrites a raw kernel before LLVM compiles it, so that native code computes the same as the C code.

* float16 functions are computed in float32.
* Some float32 functions are expanded, see `elementary`; in values that are rounded to bfloat16, see `coarse`.
* Functions of the C library are called by name where LLVM has no operation, where TVM's own expansion is inaccurate
  (`tanh` near 0), or where LLVM would pick a name that is not standard C (`sincosf`, `exp10f`).
* Integer division and modulo by a value from memory give 0 for a zero divisor instead of a trap.
* NaN is unequal to everything. Of maxima and minima that are NaN if an operand is, the CPU says how.
* Where LLVM has no good code for float16, it is converted to float32 by arithmetic on whole vectors.
* In kernels whose rows have the same bits however many there are, a product and the sum that it is added to are rounded
  together where they are written together. LLVM may do so or not, in each of its versions of a loop.
* Conversions between float16 and float64 go through float32, for which all CPUs have code. The direct conversion is a
  function of the compilers' own libraries.
* Casts of float values from memory to integers saturate, and give 0 for NaN. A cast of a rounded value that is
  clamped to constants is a single operation.
* Where LLVM would split vectors into elements to convert them to bytes, instructions of WebAssembly do the conversion.

The rules hold for scalars and for vectors.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.ir.prim import expr as prim

from deploykit.compiler.codegen.c import types
from deploykit.compiler.codegen.c.calls import MATH
from deploykit.compiler.codegen.native import coarse, elementary
from deploykit.compiler.codegen.native.functions import rounding_to_bf16
from deploykit.compiler.codegen.native.parts import from_bits, lanes_of, multiply_add, named
from deploykit.compiler.codegen.rounding import rounded_within
from deploykit.compiler.tir.extrema import EXTREMA
from deploykit.compiler.tir.inexact import EXACT
from deploykit.compiler.tir.loaded_values import bound_to_memory, depends_on_memory
from deploykit.compiler.tir.rewriting import call_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvm.ir import Expr

    from deploykit.compiler.codegen.native.cpus import Cpu

_INTRINSICS = {f"tirx.{name}": f"llvm.{name}" for name in ("tanh", "tan", "sinh", "cosh", "pow")}
"""Operators that are an operation of LLVM. LLVM calls the C library for them, once per lane for a vector."""

_LIBRARY = {f"tirx.{name}": name for name in ("asinh", "acosh", "atanh", "fmod", "erf", "log1p")}
"""Operators that become calls of the C library, with the name of the function for double; one call per lane."""


def prepare(func: tirx.PrimFunc, cpu: Cpu, *, fast_math: bool = False) -> tirx.PrimFunc:
    """Apply every rule. `fast_math`: use the functions of the module `fast_math`."""
    from_memory = bound_to_memory(func.body)

    def reads_memory(expr: Expr) -> bool:
        return depends_on_memory(expr, from_memory)

    def division(expr: Any) -> Expr:
        if types.is_float(_element(expr)) or not reads_memory(expr.b):
            return expr
        return _guarded_division(expr)

    exact = func.attrs is not None and bool(func.attrs.get(EXACT))
    body = tvm_ffi.structural_map(
        tvm_ffi.structural_map(func.body, (Call, _shortened)),
        [
            *([((prim.Add, prim.Sub), _rounded_once)] if exact else []),
            (Call, partial(_call, cpu=cpu, fast=fast_math)),
            ((prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod), division),
            (prim.Cast, partial(_cast, cpu=cpu, reads_memory=reads_memory)),
            (prim.NE, _unequal),
        ],
    )
    return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)


def _cast(expr: prim.Cast, *, cpu: Cpu, reads_memory: Callable[[Expr], bool]) -> Expr:
    source, target = _element(expr.value), _element(expr)
    if target == "bfloat16":
        return expr  # its bits are taken, see `_call`
    if target == "float64":
        return _from_half(expr)
    if (source, target) == ("float16", "float32") and not cpu.halves:
        return _widened(expr.value)
    if (source, target) == ("float64", "float16"):
        return _odd(expr.value).astype(str(expr.ty.dtype))
    if cpu.narrows is not None and _narrows(expr):
        return _narrowed(expr, cpu.narrows)
    if not types.is_float(source) or types.is_float(target) or target == "bool" or not reads_memory(expr.value):
        return expr
    if cpu.saturates and source == "float32" and target in _SATURATING:
        return tirx.call_llvm_pure_intrin(str(expr.ty.dtype), _SATURATING[target], expr.value)
    if target == "int32" and source == "float32" and rounded_within(expr.value, 2.0**31 - 128):
        return _nearest(expr.value.args[0], cpu)
    return _saturating_cast(expr, target)


def _rounded_once(expr: Any) -> Expr:
    """`a * b + c` and so on, as one operation."""
    if _element(expr) != "float32":
        return expr
    minus = isinstance(expr, prim.Sub)
    if isinstance(expr.a, prim.Mul):
        return multiply_add(expr.a.a, expr.a.b, -expr.b if minus else expr.b)
    if isinstance(expr.b, prim.Mul):
        return multiply_add(-expr.b.a if minus else expr.b.a, expr.b.b, expr.a)
    return expr


def _element(expr: Expr) -> str:
    """The dtype of a scalar, or of the lanes of a vector."""
    return str(expr.ty.dtype).split("x")[0]


def _is_scalar(expr: Expr) -> bool:
    return str(expr.ty.dtype) == _element(expr)


_SATURATING = {"int32": "llvm.fptosi.sat", "uint32": "llvm.fptoui.sat"}

_COMPOSED = ("tirx.exp10", "tirx.sigmoid", "tirx.rsqrt")


def _is_bf16(call: Call) -> bool:
    """Whether these are the bits of numbers rounded to bfloat16."""
    if call_name(call) != "reinterpret":
        return False
    return isinstance(call.args[0], prim.Cast) and _element(call.args[0]) == "bfloat16"


def _shortened(call: Call) -> Expr:
    if not _is_bf16(call):
        return call
    rounded = coarse.shortened(call.args[0].value).astype(str(call.args[0].ty.dtype))
    return tirx.reinterpret(str(call.ty.dtype), rounded)


def _call(call: Call, *, cpu: Cpu, fast: bool) -> Expr:
    if _is_bf16(call):
        dtype = str(call.ty.dtype)
        return tirx.call_pure_extern(dtype, rounding_to_bf16(dtype), call.args[0].value)
    return _extremum(call, cpu) if call_name(call) in EXTREMA else _math(call, fast=fast)


def _extremum(call: Call, cpu: Cpu) -> Expr:
    """A maximum or minimum that is NaN if an operand is. The second operand of a step of a reduction is an element, not
    the result of the step before it, so that the test for NaN can run ahead. LLVM keeps the single instruction for the
    extremum beside a choice of a constant, but not beside one of the element."""
    name, (own, other) = call_name(call), call.args
    if _element(call) == "float32" and (cpu.extrema == "all" or (cpu.extrema == "scalars" and _is_scalar(call))):
        return tirx.call_llvm_pure_intrin(str(call.ty.dtype), f"llvm.{name}", own, other)
    bits = _element(call).replace("float", "int")
    nan = from_bits(tirx.const(-1, bits).astype(lanes_of(other, bits)), _element(call))
    return named(other, lambda x: tirx.Select(prim.Not(prim.EQ(x, x)), nan, EXTREMA[name](x, own)))


def _math(call: Call, *, fast: bool) -> Expr:
    name = getattr(call.op, "name", "")
    if name not in MATH and name not in _COMPOSED:
        return call
    element, dtype = _element(call), str(call.ty.dtype)
    if element == "float16":
        wide = dtype.replace(element, "float32")
        single = Call(call.op, [arg.astype(wide) for arg in call.args], ret_ty=wide)
        return _math(single, fast=fast).astype(dtype)
    expansion = elementary.expand(call, fast=fast) if element == "float32" else None
    if expansion is not None:
        return expansion
    if name == "tirx.exp10":
        ten = tirx.const(10.0, element)
        return tirx.call_llvm_pure_intrin(dtype, "llvm.pow", ten.astype(dtype), *call.args)
    if name in _INTRINSICS:
        return tirx.call_llvm_pure_intrin(dtype, _INTRINSICS[name], *call.args)
    if name in _LIBRARY:
        suffix = "" if element == "float64" else "f"
        return _by_lanes(dtype, f"{_LIBRARY[name]}{suffix}", call.args)
    return call


def _by_lanes(dtype: str, name: str, arguments: Sequence[Expr]) -> Expr:
    """Calls of a C library function, one per lane."""
    element, _, lanes = dtype.partition("x")
    if not lanes:
        return tirx.call_pure_extern(dtype, name, *arguments)
    single = [
        tirx.call_pure_extern(element, name, *(tirx.Shuffle([argument], [lane]) for argument in arguments))
        for lane in range(int(lanes))
    ]
    return tirx.Shuffle(single, list(range(int(lanes))))


def _from_half(expr: prim.Cast) -> Expr:
    """A cast to float64. A cast from float16 is done in two steps, which LLVM does not merge into one."""
    dtype = str(expr.ty.dtype)
    value = expr.value.value if isinstance(expr.value, prim.Cast) else expr.value
    if _element(value) != "float16":
        return expr
    return _kept(value.astype(dtype.replace("float64", "float32"))).astype(dtype)


def _kept(value: Expr) -> Expr:
    """A float value that LLVM computes as written, in its own width."""
    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), "llvm.arithmetic.fence", value)


def _widened(value: Expr) -> Expr:
    """float16 as float32. The magnitude's bits move to float32's place, and the exponent gets float32's bias; infinity
    and NaN have the greatest exponent in both. A subnormal number is the difference of two normal ones, because some
    vector units take subnormal numbers of float32 for zero."""
    half = str(value.ty.dtype)
    narrow, bits, single = (half.replace("float16", dtype) for dtype in ("uint16", "uint32", "float32"))

    def const(number: int) -> Expr:
        return tirx.const(number, bits)

    wide = tirx.reinterpret(narrow, value).astype(bits)
    magnitude = (wide & const(0x7FFF)) << const(13)
    normal = magnitude + tirx.Select(magnitude >= const(31 << 23), const(224 << 23), const(112 << 23))
    above = tirx.reinterpret(single, magnitude + const(113 << 23))
    subnormal = tirx.reinterpret(bits, above - tirx.const(2.0**-14, single))
    unsigned = tirx.Select(magnitude < const(1 << 23), subnormal, normal)
    return tirx.reinterpret(single, unsigned | ((wide & const(0x8000)) << const(16)))


def _odd(value: Expr) -> Expr:
    """float64 as a float32 that rounds to the same float16 as the value itself. If inexact, it is rounded towards zero
    and its last bit is set. (S. Boldo and G. Melquiond, When double rounding is odd, 17th IMACS World Congress, 2005.)
    """
    dtype = str(value.ty.dtype)
    single, bits = dtype.replace("float64", "float32"), dtype.replace("float64", "int32")
    nearest = value.astype(single)
    back = nearest.astype(dtype)
    one, zero = tirx.const(1, bits), tirx.const(0, bits)
    away = tirx.Select(tirx.abs(back) > tirx.abs(value), one, zero)
    odd = (tirx.reinterpret(bits, nearest) - away) | one
    return tirx.Select(back == value, nearest, tirx.reinterpret(single, odd))


def _narrows(expr: prim.Cast) -> bool:
    """Whether a cast converts a vector register of int32 to bytes."""
    return str(expr.value.ty.dtype) == "int32x4" and types.bits(_element(expr)) == 8 and _element(expr) != "bool"


def _narrowed(expr: prim.Cast, instruction: str) -> Expr:
    """The lowest byte of each of four lanes. The instructions saturate, which leaves values that fit a byte as they
    are."""
    low = expr.value & tirx.const(255, "int32x4")
    words = tirx.call_llvm_pure_intrin("int16x8", instruction, low, low)
    octets = tirx.call_llvm_pure_intrin("int8x16", instruction, words, words)
    return tirx.reinterpret(str(expr.ty.dtype), tirx.Shuffle([tirx.reinterpret("int32x4", octets)], [0]))


def _unequal(expr: prim.NE) -> Expr:
    return tirx.Not(prim.EQ(expr.a, expr.b)) if types.is_float(_element(expr.a)) else expr


def _guarded_division(expr: Any) -> Expr:
    dtype = str(expr.ty.dtype)
    zero, one = tirx.const(0, dtype), tirx.const(1, dtype)
    harmless = tirx.Select(expr.b == zero, one, expr.b)
    result = tirx.Select(expr.b == zero, zero, type(expr)(expr.a, harmless))
    if types.is_unsigned(dtype):
        return result
    minus_one = tirx.const(-1, dtype)
    harmless = tirx.Select(tirx.any(expr.b == zero, expr.b == minus_one), one, expr.b)
    quotient = type(expr)(expr.a, harmless)
    by_minus_one = zero if isinstance(expr, prim.Mod | prim.FloorMod) else zero - expr.a
    return tirx.Select(expr.b == zero, zero, tirx.Select(expr.b == minus_one, by_minus_one, quotient))


def _nearest(value: Expr, cpu: Cpu) -> Expr:
    """The nearest int32, ties to even, of a float32 that is in range."""
    dtype = str(value.ty.dtype).replace("float", "int")
    lanes = int(dtype.partition("x")[2] or 1)
    if cpu.rounds is None or lanes % _REGISTER:
        return tirx.call_llvm_pure_intrin(dtype, "llvm.lrint", value)
    if lanes == _REGISTER:
        return tirx.call_llvm_pure_intrin(dtype, cpu.rounds, value)
    starts = range(0, lanes, _REGISTER)
    parts = [_nearest(tirx.Shuffle([value], list(range(at, at + _REGISTER))), cpu) for at in starts]
    return tirx.Shuffle(parts, list(range(lanes)))


_REGISTER = 4
"""The lanes of a register of 32-bit elements."""


def _saturating_cast(expr: prim.Cast, target: str) -> Expr:
    dtype, source = str(expr.ty.dtype), str(expr.value.ty.dtype).replace("float16", "float32")
    value = expr.value.astype(source)
    low, high = types.integer_range(target)
    above = tirx.const(float(high + 1), source)
    if types.is_unsigned(target) or types.bits(target) < 24:
        inside = value > tirx.const(float(low - 1), source)
    else:
        inside = value >= tirx.const(float(low), source)
    whole = prim.Cast(dtype.replace(target, "int32") if types.bits(target) < 32 else dtype, value)
    chosen = tirx.Select(inside, whole.astype(dtype), tirx.const(low, dtype))
    beyond = tirx.Select(value >= above, tirx.const(high, dtype), tirx.const(0, dtype))
    return tirx.Select(value < above, chosen, beyond)
