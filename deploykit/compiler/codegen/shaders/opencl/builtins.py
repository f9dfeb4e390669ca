"""WGSL's functions in OpenCL C.

`HELPERS` are functions that stand for an expression. A text declares those that it calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from deploykit.compiler.codegen.shaders.opencl.errors import Unprintable
from deploykit.compiler.codegen.shaders.opencl.types import bare, truths, type_of
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Builtin, Expression, Literal, Splat
from deploykit.compiler.codegen.shaders.wgsl.reading.types import BOOL, F16, FLOATS, I32, U32, Type, element_of

HELPERS = {
    "quotient_int": """\
int quotient_int(int a, int b) {
    return a / (b == 0 || (b == -1 && a == (-2147483647 - 1)) ? 1 : b);
}
""",
    "rest_int": """\
int rest_int(int a, int b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
""",
    "quotient_uint": """\
uint quotient_uint(uint a, uint b) {
    return a / (b == 0u ? 1u : b);
}
""",
    "rest_uint": """\
uint rest_uint(uint a, uint b) {
    return b == 0u ? 0u : a % b;
}
""",
    "same_in_group_int": """\
int same_in_group_int(__local const int* at) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const int value = *at;
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}
""",
    "floats_of_word": """\
float2 floats_of_word(uint word) {
#ifdef DK_F16
    return convert_float2(as_half2(word));
#else
    return vload_half2(0, (const half*)&word);
#endif
}
""",
    "dot_of_bytes": """\
#if defined(DK_DOT) && defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
#define dot_of_bytes(a, b) dot_4x8packed_ss_int(a, b)
#elif defined(DK_DOT) && defined(cl_arm_integer_dot_product_int8)
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_int8 : enable
#define dot_of_bytes(a, b) arm_dot(as_char4(a), as_char4(b))
#else
int dot_of_bytes(uint a, uint b) {
    const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
    return (products.x + products.y) + (products.z + products.w);
}
#endif
""",
    "word_of_floats": """\
uint word_of_floats(float2 values) {
    uint word;
    vstore_half2_rte(values, 0, (half*)&word);
    return word;
}
""",
}
"""The dot products are those of the extensions cl_khr_integer_dot_product and cl_arm_integer_dot_product_int8."""

_UNARY = "acos acosh asin asinh atan atanh ceil cos cosh exp exp2 floor log log2 sign sin sinh sqrt tan tanh trunc"
_FLOATS = {
    **{name: f"{name}({{0}})" for name in _UNARY.split()},
    "abs": "fabs({0})",
    "inverseSqrt": "rsqrt({0})",
    "round": "rint({0})",
    "fract": "({0} - floor({0}))",
    "saturate": "clamp({0}, 0.0f, 1.0f)",
    "min": "fmin({0}, {1})",
    "max": "fmax({0}, {1})",
    "atan2": "atan2({0}, {1})",
    "pow": "pow({0}, {1})",
    "step": "step({0}, {1})",
    "clamp": "clamp({0}, {1}, {2})",
    "fma": "fma({0}, {1}, {2})",
    "mix": "mix({0}, {1}, {2})",
    "smoothstep": "smoothstep({0}, {1}, {2})",
    "dot": "dot({0}, {1})",
    "length": "length({0})",
}
_INTEGERS = {
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "clamp": "clamp({0}, {1}, {2})",
    "countLeadingZeros": "clz({0})",
    "countOneBits": "popcount({0})",
    "countTrailingZeros": "popcount(({0} & -{0}) - 1)",
}
_ATOMICS = {
    "atomicAdd": "atomic_add",
    "atomicSub": "atomic_sub",
    "atomicMax": "atomic_max",
    "atomicMin": "atomic_min",
    "atomicAnd": "atomic_and",
    "atomicOr": "atomic_or",
    "atomicXor": "atomic_xor",
    "atomicExchange": "atomic_xchg",
}
_OTHERS = {
    "workgroupBarrier": "barrier(CLK_LOCAL_MEM_FENCE)",
    "storageBarrier": "barrier(CLK_GLOBAL_MEM_FENCE)",
    "unpack2x16float": "floats_of_word({0})",
    "pack2x16float": "word_of_floats({0})",
    "dot4I8Packed": "dot_of_bytes({0}, {1})",
}
_WORD = 32

Print = Callable[[Expression], str]


def called(node: Builtin, operand: Print, place: Print) -> str:
    """A call. `operand` prints a value as a part of an expression, `place` what an address points to."""
    name, given = node.function, node.arguments
    if name == "select":
        return _select(node.type, [operand(value) for value in given], given[2])
    if name == "extractBits":
        return _bits(node.type, operand(given[0]), operand(given[1]), given[2])
    if name in _ATOMICS:
        return f"{_ATOMICS[name]}(&{place(given[0])}, {bare(operand(given[1]))})"
    if name == "atomicLoad":
        return place(given[0])
    if name == "atomicStore":
        return f"{place(given[0])} = {operand(given[1])}"
    if name == "workgroupUniformLoad" and node.type is I32:
        return f"same_in_group_int(&{place(given[0])})"
    values = [operand(value) for value in given]
    if name in ("any", "all"):
        return f"({name}({values[0]}) != 0)" if truths(given[0].type) else values[0]
    if name == "abs" and element_of(node.type) is I32:
        return f"as_{type_of(node.type)}(abs({bare(values[0])}))"
    if name == "abs" and element_of(node.type) is U32:
        return values[0]
    kind = element_of(given[0].type) if given else None
    pattern = _OTHERS.get(name) or (_FLOATS if kind in FLOATS else _INTEGERS).get(name)
    if pattern is None or (kind is F16 and name == "saturate"):
        raise Unprintable(f"the function {name}")
    simple = pattern.count("(") == 1 and not pattern.startswith("(")
    return pattern.format(*map(bare, values) if simple else values)


def _select(kind: Type, values: Sequence[str], condition: Expression) -> str:
    otherwise, chosen, truth = values
    if condition.type is BOOL:
        return f"({truth} ? {chosen} : {otherwise})"
    if element_of(kind) is F16:
        truth = f"convert_short{getattr(kind, 'size', '')}({truth})"
    return f"select({', '.join(map(bare, (otherwise, chosen, truth)))})"


def _bits(kind: Type, value: str, offset: str, count: Expression) -> str:
    """A field of bits, whose number must be known, and which must lie in the word."""
    number = count.operand if isinstance(count, Splat) else count
    if not isinstance(number, Literal) or not 0 < number.value <= _WORD:
        raise Unprintable("extractBits of any number of bits")
    bits = int(number.value)
    if element_of(kind) is I32:
        left = f"{_WORD - bits}u" if offset == "0u" else f"({_WORD - bits}u - {offset})"
        return f"(({value} << {left}) >> {_WORD - bits}u)"
    part = value if offset == "0u" else f"({value} >> {offset})"
    return f"({part} & {(1 << bits) - 1}u)"


def converted(source: Type, target: Type, value: str) -> str:
    """A value of another element type."""
    old, new, kind = element_of(source), element_of(target), type_of(target)
    vectors = source is not old
    if new is BOOL:
        return f"({value} != {'(half)0' if old is F16 else '0'})"
    if old is BOOL:
        if not vectors:
            return f"({value} ? {_ONES[type_of(target)]})"
        return f"(-{value})" if new is I32 else f"convert_{kind}(-{value})"
    if old in FLOATS and new not in FLOATS:
        return f"convert_{kind}_sat_rtz({bare(value)})"
    if old not in FLOATS and new not in FLOATS:
        return f"as_{kind}({bare(value)})"
    return f"convert_{kind}{'_rte' * (new is F16)}({bare(value)})"


_ONES = {"float": "1.0f : 0.0f", "half": "(half)1.0f : (half)0.0f", "int": "1 : 0", "uint": "1u : 0u"}


def helpers(text: str) -> list[str]:
    """The helpers that a text calls."""
    found = set(re.findall(r"\b\w+(?=\()", text))
    return [name for name in HELPERS if name in found]
