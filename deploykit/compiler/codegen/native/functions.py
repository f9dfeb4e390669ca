"""Functions in LLVM's language, for instructions whose operands have types that TVM has not.

A kernel calls them by name as external functions. LLVM inlines them, so that nothing of them is left in the
object.
"""

from __future__ import annotations

from collections.abc import Mapping

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


FUNCTIONS: Mapping[str, str] = {f"vdpbf16ps_{bits}": _vdpbf16ps(bits) for bits in (128, 256, 512)} | amx.functions()
"""The text of each function, by its name."""


def with_functions(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """`func` with the text of the functions that it calls."""
    called = {str(call.args[0].value) for call in collect(func.body, ir.Call) if _is_external(call)}
    body = func.body
    for name in sorted(called & FUNCTIONS.keys()):
        body = tirx.AttrStmt(tirx.IntImm("int32", 0), _IMPORT, ir.StringImm(FUNCTIONS[name]), body)
    return func.with_body(body)


def _is_external(call: ir.Call) -> bool:
    return getattr(call.op, "name", "") in ("tirx.call_extern", "tirx.call_pure_extern")
