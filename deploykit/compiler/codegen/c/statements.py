"""Prints one lowered kernel as one C function.

Pointer params are `const` if the kernel never writes through them, and `restrict` if the function has the attribute
`tirx.noalias`. Small allocations are local arrays, and binds are `const` variables. Remaining vectorised and unrolled
loops are printed as plain loops (the C compiler decides).
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, PointerType, Range, TensorLoad, Var
from tvm.ir.prim import expr as prim
from tvm.tirx import DeclBuffer, For, IfThenElse, SeqStmt

from deploykit.compiler.codegen.c import support, types
from deploykit.compiler.codegen.c.calls import MATH
from deploykit.compiler.codegen.c.expressions import ExpressionPrinter
from deploykit.compiler.codegen.c.names import Scopes
from deploykit.compiler.codegen.c.uses import used_variables, written_buffers
from deploykit.compiler.lowering.raw_abi import variables
from deploykit.compiler.tir.rewriting import collect

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm.ir import Expr
    from tvm.tirx import Stmt

INDENT = "    "
_FUNCTIONS = frozenset({*MATH.values(), *(f"{name}f" for name in MATH.values()), *support.NAMES})
_JUMPS = {"tirx.break_loop": "break;", "tirx.continue_loop": "continue;"}
LINE_LENGTH = 110
DIM_LIMIT = 2**40
"""No dim reaches this. The division rules rely on it."""


def sizes(var: Var) -> Range:
    """The values of a dim, or of an index within one, in the dtype of a variable."""
    return Range(0, DIM_LIMIT if types.dtype_of(var) == "int64" else 2**31 - 1)


def may_be_known(stmt: tirx.Bind) -> bool:
    """Whether an analyzer takes the value of a variable. It fails on a size that is cast to int32, because the range of
    the size has no room there."""
    dtype = types.dtype_of(stmt.var)
    return dtype == "int64" or (dtype == "int32" and not collect(stmt.value, prim.Cast))


class KernelPrinter:
    """Prints the function of one kernel. `symbol` is the name of the C function."""

    expression_printer = ExpressionPrinter

    def __init__(self, func: tirx.PrimFunc, symbol: str) -> None:
        self.func = func
        self.symbol = symbol
        self.scopes = Scopes(_FUNCTIONS)
        self.names: dict[Var, str] = {}
        self.analyzer = tvm.sym.Analyzer()
        self.expressions = self.expression_printer(self.names.__getitem__, self.names.__getitem__, self.analyzer)
        self.lines: list[str] = []
        self.depth = 1
        self.written = written_buffers(func.body)
        self.used: set[Var] = set()

    def text(self) -> str:
        """The definition, ending with a newline."""
        for param in self.func.params:
            self.names[param] = self.scopes.fresh(self._wanted(param))
        self.used = used_variables(self.func.body)
        self._statement(self.func.body)
        text = "\n".join(self.lines)
        unused = [n for n in (self.names[p] for p in self.func.params) if not re.search(rf"\b{n}\b", text)]
        ignored = [f"{INDENT}(void){name};" for name in unused]
        return "\n".join([f"{self._signature()} {{", *ignored, *self.lines, "}", ""])

    def prototype(self) -> str:
        """The declaration, without the semicolon."""
        for param in self.func.params:
            self.names[param] = self.scopes.fresh(self._wanted(param))
        return self._signature()

    def _wanted(self, param: Var) -> str:
        """The name that a parameter gets if it can."""
        return str(param.name)

    def _signature(self) -> str:
        params = [self._parameter(param) for param in self.func.params] or ["void"]
        head = f"void {self.symbol}("
        line = f"{head}{', '.join(params)})"
        if len(line) <= LINE_LENGTH:
            return line
        return f"{head}\n{INDENT * 2}" + f",\n{INDENT * 2}".join(params) + ")"

    def _parameter(self, param: Var) -> str:
        if not isinstance(param.ty, PointerType):
            return f"{types.value_type(types.dtype_of(param))} {self.names[param]}"
        const = "" if param in self.written else "const "
        restrict = "restrict " if self.func.attrs and self.func.attrs.get("tirx.noalias") else ""
        element = types.storage_type(str(param.ty.element_type.dtype))
        return f"{const}{element} *{restrict}{self.names[param]}"

    def _line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def _block(self, head: str, body: Stmt) -> None:
        self._line(f"{head} {{")
        self.depth += 1
        with self.scopes.nested():
            self._statement(body)
        self.depth -= 1

    def _statement(self, stmt: Stmt) -> None:
        handler = self._handlers.get(type(stmt))
        if handler is None:
            raise ValueError(f"no C for the statement {type(stmt).__name__} in kernel `{self.symbol}`")
        handler(self, stmt)

    def _sequence(self, stmt: SeqStmt) -> None:
        for part in stmt:
            self._statement(part)

    def _declare(self, stmt: DeclBuffer) -> None:
        for var in variables(stmt.buffer.ty.shape):
            if not self.analyzer.const_int_bound_is_bound(var):
                self.analyzer.bind(var, sizes(var))
        data = stmt.data
        if isinstance(data, Var):
            self.names[stmt.buffer] = self.names[data]
        elif data.op.name == "tirx.buffer_data":
            self._alias(stmt.buffer, data.args[0])
        elif data.op.name == "tirx.address_of":
            self._pointer(stmt.buffer, data.args[0])
        else:
            raise ValueError(f"no C for the buffer declaration {stmt}")

    def _alias(self, buffer: Var, source: Var) -> None:
        if str(buffer.ty.dtype) == str(source.ty.dtype):
            self.names[buffer] = self.names[source]
            return
        raise ValueError(f"buffer `{source.name}` is seen with two element types in kernel `{self.symbol}`")

    def _pointer(self, buffer: Var, start: TensorLoad) -> None:
        name = self.scopes.fresh(buffer.name)
        element = types.storage_type(str(buffer.ty.dtype))
        const = "" if buffer in self.written else "const "
        base = self.names[start.source]
        self._line(f"{const}{element} *{name} = &{base}[{self.expressions.index(start.indices[0])}];")
        self.names[buffer] = name

    def _allocate(self, stmt: tirx.AllocBuffer) -> None:
        size = 1
        for extent in stmt.buffer.ty.shape:
            size *= int(extent)
        name = self.scopes.fresh(stmt.buffer.name)
        self._line(f"{types.storage_type(str(stmt.buffer.ty.dtype))} {name}[{self._extent(size)}];")
        self.names[stmt.buffer] = name

    def _extent(self, size: int) -> str:
        """The text of the number of elements of a local array."""
        return str(size)

    def _bind(self, stmt: tirx.Bind) -> None:
        if self.expressions.reads_memory(stmt.value):
            self.expressions.from_memory.add(stmt.var)
        elif may_be_known(stmt):
            self.analyzer.bind(stmt.var, stmt.value, allow_override=True)
        if stmt.var not in self.used:
            return
        value = self.expressions.value(stmt.value)
        name = self.scopes.fresh(_bind_name(stmt.var))
        self._line(f"const {types.value_type(types.dtype_of(stmt.var))} {name} = {value};")
        self.names[stmt.var] = name

    def _for(self, loop: For) -> None:
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent), allow_override=True)
        last = _end(loop)
        c_type = types.value_type(types.dtype_of(loop.loop_var))
        first, end = self.expressions.index(loop.min), self.expressions.operand(last)
        if self.expressions.reads_memory(last):
            name = self.scopes.fresh(f"{loop.loop_var.name}_end")
            self._line(f"const {c_type} {name} = {self.expressions.index(last)};")
            end = name
        with ExitStack() as inside:
            inside.enter_context(self.scopes.nested())
            for factor in self._factors(self.analyzer.simplify(loop.extent)):
                inside.enter_context(self.analyzer.constraint_scope(factor > 0))
            name = self.scopes.fresh(loop.loop_var.name)
            self.names[loop.loop_var] = name
            step = f"++{name}" if loop.step is None else f"{name} += {self.expressions.index(loop.step)}"
            self._block(f"for ({c_type} {name} = {first}; {name} < {end}; {step})", loop.body)
        self._line("}")

    def _factors(self, extent: Expr) -> list[Expr]:
        """The factors of a loop's extent if none can be negative, else the extent. Each is positive in the loop's
        body."""
        if not isinstance(extent, prim.Mul) or self.analyzer.const_int_bound(extent).min_value < 0:
            return [extent]
        sides = (extent.a, extent.b)
        if any(self.analyzer.const_int_bound(side).min_value < 0 for side in sides):
            return [extent]
        return [factor for side in sides for factor in self._factors(side)]

    def _while(self, loop: tirx.While) -> None:
        self._block(f"while ({self.expressions.value(loop.condition)})", loop.body)
        self._line("}")

    def _if(self, stmt: IfThenElse, lead: str = "") -> None:
        self._block(f"{lead}if ({self.expressions.value(stmt.condition)})", stmt.then_case)
        if stmt.else_case is None:
            self._line("}")
        elif isinstance(stmt.else_case, IfThenElse):
            self._if(stmt.else_case, "} else ")
        else:
            self._block("} else", stmt.else_case)
            self._line("}")

    def _store(self, stmt: tirx.BufferStore) -> None:
        target = f"{self.names[stmt.buffer]}[{self.expressions.position(stmt.indices)}]"
        dtype = str(stmt.buffer.ty.dtype)
        if dtype == "float16":
            self._line(f"{target} = {self.expressions.half_bits(stmt.value)};")
        elif types.is_float(dtype) and _adds_to_itself(stmt):
            self._line(f"{target} += {self.expressions.value(stmt.value.b)};")
        else:
            self._line(f"{target} = {self.expressions.value(stmt.value)};")

    def _evaluate(self, stmt: tirx.Evaluate) -> None:
        value = stmt.value
        if not isinstance(value, Call):
            return
        if value.op.name in _JUMPS:
            self._line(_JUMPS[value.op.name])
        elif value.op.name.startswith("tirx.call_"):
            self._line(f"{self.expressions.value(value)};")
        elif value.op.name != "tirx.assume":
            raise ValueError(f"no C for the statement {value} in kernel `{self.symbol}`")

    def _attribute(self, stmt: tirx.AttrStmt) -> None:
        self._statement(stmt.body)

    def _break(self, _: Stmt) -> None:
        self._line("break;")

    def _continue(self, _: Stmt) -> None:
        self._line("continue;")

    _handlers: dict[type, Callable[[KernelPrinter, Any], None]] = {  # noqa: RUF012
        SeqStmt: _sequence,
        DeclBuffer: _declare,
        tirx.AllocBuffer: _allocate,
        tirx.Bind: _bind,
        For: _for,
        tirx.While: _while,
        IfThenElse: _if,
        tirx.BufferStore: _store,
        tirx.Evaluate: _evaluate,
        tirx.AttrStmt: _attribute,
        tirx.Break: _break,
        tirx.Continue: _continue,
    }


def _bind_name(var: Var) -> str:
    """The variable's name; for a shared subexpression that the compiler named, a word for its kind."""
    if not var.name.startswith("cse_v"):
        return str(var.name)
    return "offset" if types.dtype_of(var) in ("int32", "int64") else "value"


def _end(loop: For) -> Expr:
    if isinstance(loop.min, prim.IntImm) and int(loop.min.value) == 0:
        return loop.extent
    return tvm.sym.Analyzer().simplify(loop.min + loop.extent)


def _adds_to_itself(stmt: tirx.BufferStore) -> bool:
    """Whether a store has the form `a[i] = a[i] + x`."""
    value = stmt.value
    if not isinstance(value, prim.Add) or not isinstance(value.a, TensorLoad):
        return False
    return bool(value.a.source.same_as(stmt.buffer) and tvm_ffi.structural_equal(value.a.indices, stmt.indices))
