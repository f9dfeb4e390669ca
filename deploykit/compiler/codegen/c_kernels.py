"""Kernels as one C99 translation unit, and integer expressions for the host code.

A unit includes <math.h>, <stddef.h>, <stdint.h> and <string.h> only, is free of warnings at `-Wall -Wextra -Wpedantic`
and has no undefined behaviour for any contents of the buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm
from tvm.ir import Range

from deploykit.compiler.codegen.c import support
from deploykit.compiler.codegen.c.expressions import ExpressionPrinter
from deploykit.compiler.codegen.c.names import identifier
from deploykit.compiler.codegen.c.statements import DIM_LIMIT, KernelPrinter
from deploykit.compiler.codegen.c.text import ADD, MULTIPLY, TERNARY, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tvm.ir import Var

    from deploykit.compiler.program.ir import IntExpr, Kernel

_INCLUDES = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"


def symbol(kernel: Kernel, prefix: str) -> str:
    """The name of a kernel's function in C and in an object."""
    return f"{prefix}_{identifier(kernel.name)}"


def emit_c(kernels: Iterable[Kernel], prefix: str) -> str:
    """The definitions of all kernels. Raises `ValueError` for what has no portable C (vector operations)."""
    functions = "\n".join(KernelPrinter(k.func, symbol(k, prefix)).text() for k in kernels)
    return f"{_INCLUDES}\n{support.definitions(functions)}{functions}"


def emit_prototypes(kernels: Iterable[Kernel], prefix: str) -> str:
    """The declarations of all kernels, each a line or a few; they need <stdint.h>."""
    return "".join(f"{KernelPrinter(k.func, symbol(k, prefix)).prototype()};\n" for k in kernels)


def c_expression(expr: IntExpr, name_of: Callable[[Var], str], nonnegative: Iterable[Var] = ()) -> str:
    """An integer or boolean expression over int64 variables, as C that calls no function.

    Division of what is known not to be negative is written plainly; `nonnegative` are the variables to know it of.
    """
    if isinstance(expr, int):
        return str(expr)
    analyzer = tvm.sym.Analyzer()
    for var in nonnegative:
        analyzer.bind(var, Range(0, DIM_LIMIT))
    return _HostExpressions(name_of, _no_buffer, analyzer).index(expr)


class _HostExpressions(ExpressionPrinter):
    """Writes out what the kernels have support functions for."""

    def support(self, function: str, *args: str) -> Text:
        a, b = (f"({arg})" if " " in arg else arg for arg in args)
        match function.removesuffix("_i64"):
            case "min":
                return Text(f"{a} < {b} ? {a} : {b}", TERNARY)
            case "max":
                return Text(f"{a} > {b} ? {a} : {b}", TERNARY)
            case "div":
                return Text(f"{a} / {b}", MULTIPLY)
            case "mod":
                return Text(f"{a} % {b}", MULTIPLY)
            case "floordiv":
                return Text(f"{a} / {b} - ({a} % {b} != 0 && ({a} < 0) != ({b} < 0))", ADD)
            case "floormod":
                return Text(f"({a} % {b} + {b}) % {b}", MULTIPLY)
            case _:
                raise ValueError(f"{function} occurs in a host expression")


def _no_buffer(buffer: Var) -> str:
    raise ValueError(f"buffer `{buffer.name}` occurs in a host expression")
