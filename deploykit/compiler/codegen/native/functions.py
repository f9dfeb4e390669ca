"""Functions in LLVM's language, for instructions whose operands have types that TVM has not.

A kernel calls them by name as external functions. LLVM inlines them, so that nothing of them is left in the
object.
"""

from __future__ import annotations

from tvm import ir, tirx

from deploykit.compiler.codegen.native import amx
from deploykit.compiler.tir.rewriting import collect

_IMPORT = "pragma_import_llvm"


def _vdpbf16ps(bits: int) -> str:
    """Adds the products of two pairs of bfloat16 to each float32 of a vector."""
    sums, words, halves = f"<{bits // 32} x float>", f"<{bits // 32} x i32>", f"<{bits // 16} x bfloat>"
    name = f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
    return f"""declare {sums} @{name}({sums}, {halves}, {halves})
define {sums} @vdpbf16ps_{bits}({sums} %sums, {words} %a, {words} %b) {{
  %left = bitcast {words} %a to {halves}
  %right = bitcast {words} %b to {halves}
  %result = call {sums} @{name}({sums} %sums, {halves} %left, {halves} %right)
  ret {sums} %result
}}
"""


def _bf16(lanes: int) -> str:
    """The bits of numbers as bfloat16. Subnormal numbers may become zeros."""
    floats, halves, words = (f"<{lanes} x {kind}>" if lanes > 1 else kind for kind in ("float", "bfloat", "i16"))
    return f"""define {words} @{rounding_to_bf16(f"uint16x{lanes}")}({floats} %x) {{
  %rounded = fptrunc {floats} %x to {halves}
  %bits = bitcast {halves} %rounded to {words}
  ret {words} %bits
}}
"""


def rounding_to_bf16(dtype: str) -> str:
    """The name of the function that gives the bits of float32 numbers as bfloat16, in a vector of this dtype."""
    return f"bf16_bits_{dtype.partition('x')[2] or 1}"


FUNCTIONS: dict[str, str] = {f"vdpbf16ps_{bits}": _vdpbf16ps(bits) for bits in (128, 256, 512)} | amx.functions()
FUNCTIONS |= {rounding_to_bf16(f"uint16x{lanes}"): _bf16(lanes) for lanes in range(1, 65)}
"""The text of each function, by its name."""


def with_functions(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """`func` with the text of the functions that it calls."""
    body = func.body
    for name in sorted(_called(func) & FUNCTIONS.keys()):
        body = tirx.AttrStmt(tirx.IntImm("int32", 0), _IMPORT, ir.StringImm(FUNCTIONS[name]), body)
    return func.with_body(body)


def uses_tiles(func: tirx.PrimFunc) -> bool:
    """Whether a kernel needs the tile registers of AMX."""
    return any(name.startswith(amx.PREFIX) for name in _called(func))


def _called(func: tirx.PrimFunc) -> set[str]:
    """The names of the external functions that a kernel calls."""
    return {str(call.args[0].value) for call in collect(func.body, ir.Call) if _is_external(call)}


def _is_external(call: ir.Call) -> bool:
    return getattr(call.op, "name", "") in ("tirx.call_extern", "tirx.call_pure_extern")
