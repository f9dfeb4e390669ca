"""Prints kernels as one C99 translation unit, and integer expressions for the host code.

A unit includes <math.h>, <stddef.h>, <stdint.h> and <string.h> only, is free of warnings at `-Wall -Wextra -Wpedantic`
and has no undefined behaviour for any contents of the buffers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import tvm

from deploykit.compiler.codegen.c import helium, rvv, support, vectors, words
from deploykit.compiler.codegen.c.expressions import ExpressionPrinter
from deploykit.compiler.codegen.c.names import legal_name
from deploykit.compiler.codegen.c.precedence import Text, call
from deploykit.compiler.codegen.c.sharing import shared_macro, with_shared_code
from deploykit.compiler.codegen.c.statements import KernelPrinter, sizes
from deploykit.compiler.dims import free_vars

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from tvm.ir import Var
    from tvm.ir.prim import expr as prim

    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.lowering.kernel import Kernel

ESTIMATES = "dk_estimate_"
"""The prefix of the functions that compute estimates in floating point, which does not overflow."""

_HOST_FUNCTIONS = frozenset({"min", "max", "div", "mod", "floordiv", "floormod"})

_INCLUDES = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"


def symbol(kernel: Kernel, prefix: str) -> str:
    """The name of a kernel's function, in C and in an object."""
    return f"{prefix}_{legal_name(kernel.name)}"


def emit_c(kernels: Iterable[Kernel], prefix: str, *, share: bool = False) -> str:
    """The declarations and definitions of all kernels; with `share`, those that differ in numbers have one function
    (`sharing`). Raises `ValueError` for what portable C cannot express (vector operations)."""
    known = list(kernels)
    if share:
        functions = with_shared_code(known, partial(symbol, prefix=prefix), prefix)
    else:
        functions = "\n".join(KernelPrinter(k.func, symbol(k, prefix)).text() for k in known)
    parts = (shared_macro, helium.options, words.options, vectors.types, rvv.macros)
    options = "".join(part(functions) for part in parts)
    head = f"{_INCLUDES}\n{options}{support.definitions(functions)}"
    return f"{head}{emit_prototypes(known, prefix)}\n{functions}"


def emit_prototypes(kernels: Iterable[Kernel], prefix: str) -> str:
    """The declarations of all kernels. They need <stdint.h>."""
    return "".join(f"{KernelPrinter(k.func, symbol(k, prefix)).prototype()};\n" for k in kernels)


def c_expression(
    expr: IntExpr, name_of: Callable[[Var], str], nonnegative: Container[Var] = (), functions: str = "dk_"
) -> str:
    """An integer or boolean expression over int64 variables, as C.

    Division of a value that is known not to be negative is written plainly; `nonnegative` are the variables known not
    to be negative. Other divisions, minimum and maximum are calls of functions of `deploykit.h`, whose names start with
    `functions`. The functions of `ESTIMATES` compute in floating point; with them every division is a call.
    """
    if isinstance(expr, int):
        return str(expr)
    analyzer = tvm.sym.Analyzer()
    for var in free_vars(expr):
        if var in nonnegative:
            analyzer.bind(var, sizes(var))
    return _HostExpressions(name_of, analyzer, functions).index(expr)


class _HostExpressions(ExpressionPrinter):
    """Prints host expressions, which call functions of the host instead of the support functions of kernels."""

    def __init__(self, name_of: Callable[[Var], str], analyzer: tvm.sym.Analyzer, functions: str) -> None:
        super().__init__(name_of, _no_buffer, analyzer)
        self._functions = functions

    def _divides_plainly(self, expr: prim.BinaryOpExpr) -> bool:
        return self._functions != ESTIMATES and super()._divides_plainly(expr)

    def support(self, function: str, *args: str) -> Text:
        name, _, dtype = function.rpartition("_")
        if dtype != "i64" or name not in _HOST_FUNCTIONS:
            raise ValueError(f"{function} occurs in a host expression")
        return call(f"{self._functions}{name}", *args)


def _no_buffer(buffer: Var) -> str:
    raise ValueError(f"buffer `{buffer.name}` occurs in a host expression")
