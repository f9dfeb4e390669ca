"""Prints functions and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deploykit.compiler.codegen.shaders.opencl.errors import Unprintable
from deploykit.compiler.codegen.shaders.opencl.expressions import ExpressionPrinter
from deploykit.compiler.codegen.shaders.opencl.types import type_of
from deploykit.compiler.codegen.shaders.opencl.uses import Uses, depends_on_data, scalars_of
from deploykit.compiler.codegen.shaders.opencl.words import Names
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Assign,
    Binary,
    Block,
    Break,
    Continue,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Loop,
    Module,
    Return,
    Statement,
    Switch,
    Var,
    Variable,
    While,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import I32, Array, Atomic, Type, element_of

if TYPE_CHECKING:
    from collections.abc import Iterator

UNIT = "uint4"
"""The units in which the place of a tensor is counted: 16 bytes."""

_BUILTINS = {
    "workgroup_id": "(uint3)(get_group_id(0), get_group_id(1), 0u)",
    "local_invocation_index": "(uint)get_local_id(0)",
}
_COMPOUND = frozenset("+-*&|^")


class FunctionPrinter:
    """Prints the functions of a module; see `expressions.ExpressionPrinter`."""

    def __init__(self, module: Module, names: Names, uses: Mapping[str, Uses], called: Mapping[str, str]) -> None:
        self.module, self.names, self.uses, self.called = module, names, uses, called
        self.lines: list[str] = []
        self.depth = 0

    def function(self, function: Function, name: str) -> str:
        """A function with the variables that it needs as its first parameters."""
        uses = self.uses[function.name]
        self.expressions = ExpressionPrinter(self.names, self.uses, self.called, function, kernel=False)
        taken = [self._parameter(variable, variable.name in uses.written) for variable in uses.variables]
        kinds = dict(scalars_of(self.module))
        taken += [f"{type_of(kinds[scalar])} {self.names.of(scalar)}" for scalar in uses.scalars]
        taken += [f"{type_of(p.type)} {self.names.of(p.name)}" for p in function.parameters]
        return self._whole(f"{type_of(function.result)} {name}({', '.join(taken) or 'void'})", function)

    def kernel(self, name: str) -> str:
        """The kernel of the module's entry point."""
        entry = self.module.entry
        self.expressions = ExpressionPrinter(self.names, self.uses, self.called, entry, kernel=True)
        bindings = sorted((v for v in self.module.variables if v.space == "storage"), key=lambda v: v.binding or 0)
        taken, before = [], []
        for variable in bindings:
            own, access = self.names.of(variable.name), "__global " + "const " * (variable.access == "read")
            base, place = self.names.free(f"{own}_base"), self.names.free(f"{own}_at")
            taken.append(f"{access}{UNIT}* {base}, const uint {place}")
            kind = self._pointer(variable)
            before.append(f"{self._global(variable)}{own} = ({kind}*)({base} + {place});")
        scalars = (f"const {type_of(kind)} {self.names.of(scalar)}" for scalar, kind in scalars_of(self.module))
        taken.append(", ".join(scalars))
        before += [self._variable(v) for v in self.module.variables if v.space in ("workgroup", "private")]
        for parameter in entry.parameters:
            if parameter.builtin not in _BUILTINS:
                raise Unprintable(f"the built-in value {parameter.builtin}")
            own = self.names.of(parameter.name)
            before.append(f"const {type_of(parameter.type)} {own} = {_BUILTINS[parameter.builtin]};")
        size = ", ".join(map(str, (*entry.workgroup, 1, 1)[:3]))
        listed = ",\n    ".join(taken)
        head = f"__kernel __attribute__((reqd_work_group_size({size})))\nvoid {name}(\n    {listed}\n)"
        return self._whole(head, entry, before)

    def _pointer(self, variable: Variable) -> str:
        """The type that a pointer to a tensor points to."""
        assert isinstance(variable.type, Array)
        element = variable.type.element
        qualifier = "volatile " if isinstance(element, Atomic) else "const " if variable.access == "read" else ""
        return f"__global {qualifier}{type_of(element)}"

    def _global(self, variable: Variable) -> str:
        return f"{self._pointer(variable)}* " + "restrict " * ("volatile" not in self._pointer(variable))

    def _variable(self, variable: Variable) -> str:
        """The declaration of a variable of a workgroup or an invocation."""
        space = "__local " if variable.space == "workgroup" else ""
        return f"{space}{self._declared(variable.name, variable.type)};"

    def _declared(self, name: str, kind: Type) -> str:
        own = self.names.of(name)
        if isinstance(kind, Array):
            return f"{type_of(kind.element)} {own}[{kind.length}]"
        return f"{type_of(kind)} {own}"

    def _parameter(self, variable: Variable, written: bool) -> str:
        own, kind = self.names.of(variable.name), variable.type
        if variable.space == "storage":
            return f"{self._global(variable)}{own}"
        if variable.space == "workgroup":
            return f"__local {type_of(kind.element if isinstance(kind, Array) else kind)}* {own}"
        if isinstance(kind, Array):
            raise Unprintable("a private array of a module")
        return f"{type_of(kind)}{'*' * written} {own}"

    def _whole(self, head: str, function: Function, before: list[str] | None = None) -> str:
        self.lines, self.depth = [], 1
        for line in before or ():
            self._line(line)
        self._body(function.body)
        return "\n".join([f"{head} {{", *self.lines, "}"]) + "\n"

    # Statements

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def _braces(self, head: str) -> Iterator[None]:
        self._line(f"{head} {{".strip())
        self.depth += 1
        yield
        self.depth -= 1
        self._line("}")

    def _body(self, block: Block) -> None:
        for statement in block.statements:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        self._handlers[type(statement)](self, statement)

    def _simple(self, statement: Statement | None) -> str:
        """A declaration, assignment or call without a semicolon."""
        value = self.expressions.value
        match statement:
            case Let(name, bound):
                return f"const {self._declared(name, bound.type)} = {value(bound)}"
            case Var(name, kind, bound):
                return self._declared(name, kind) + (f" = {value(bound)}" if bound else "")
            case Assign(target, Binary(_, symbol, left, right)) if symbol in _COMPOUND and left == target:
                if element_of(target.type) is I32 and depends_on_data(statement.value, self.expressions.data):
                    return f"{self.expressions.print(target)} = {value(statement.value)}"
                return f"{self.expressions.print(target)} {symbol}= {value(right)}"
            case Assign(target, bound):
                return f"{self.expressions.print(target)} = {value(bound)}"
            case Evaluate(call):
                return value(call)
            case None:
                return ""
        raise Unprintable(f"{type(statement).__name__} in a loop's head")

    def _plain(self, statement: Statement) -> None:
        self._line(f"{self._simple(statement)};")

    def _if(self, statement: If) -> None:
        with self._braces(f"if ({self.expressions.value(statement.condition)})"):
            self._body(statement.then)
        if statement.otherwise.statements:
            with self._braces("else"):
                self._body(statement.otherwise)

    def _for(self, loop: For) -> None:
        condition = self.expressions.value(loop.condition) if loop.condition else ""
        with self._braces(f"for ({self._simple(loop.first)}; {condition}; {self._simple(loop.update)})"):
            self._body(loop.body)

    def _while(self, loop: While) -> None:
        with self._braces(f"while ({self.expressions.value(loop.condition)})"):
            self._body(loop.body)

    def _loop(self, loop: Loop) -> None:
        with self._braces("while (true)"):
            self._body(loop.body)

    def _switch(self, switch: Switch) -> None:
        with self._braces(f"switch ({self.expressions.value(switch.selector)})"):
            unsigned = type_of(switch.selector.type) == "uint"
            for numbers, body in switch.cases:
                labels = " ".join(f"case {number}{'u' * unsigned}:" for number in numbers)
                self._case(labels, body)
            self._case("default:", switch.default)

    def _case(self, labels: str, body: Block) -> None:
        with self._braces(labels):
            self._body(body)
            self._line("break;")

    def _break(self, _: Break) -> None:
        self._line("break;")

    def _continue(self, _: Continue) -> None:
        self._line("continue;")

    def _return(self, statement: Return) -> None:
        self._line(f"return {self.expressions.value(statement.value)};" if statement.value else "return;")

    def _block(self, block: Block) -> None:
        with self._braces(""):
            self._body(block)

    _handlers: dict[type, Callable[[FunctionPrinter, Any], None]] = {  # noqa: RUF012
        **dict.fromkeys((Let, Var, Assign, Evaluate), _plain),
        If: _if,
        For: _for,
        While: _while,
        Loop: _loop,
        Switch: _switch,
        Break: _break,
        Continue: _continue,
        Return: _return,
        Block: _block,
    }
