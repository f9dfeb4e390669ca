"""Translates functions: their statements become blocks with structured control flow.

Variables are declared where the function begins. A statement that cannot be reached is left out, and so are variables
that are never loaded, because what they hold is always known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deploykit.compiler.codegen.shaders.spirv import builtins, conversions
from deploykit.compiler.codegen.shaders.spirv.expressions import ExpressionWriter
from deploykit.compiler.codegen.shaders.spirv.module import ModuleBuilder
from deploykit.compiler.codegen.shaders.spirv.numbers import Op, StorageClass
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Assign,
    Block,
    Break,
    Builtin,
    Continue,
    Convert,
    Evaluate,
    Expression,
    For,
    Function,
    If,
    Index,
    Let,
    Loop,
    Member,
    Name,
    Return,
    Statement,
    Switch,
    Swizzle,
    Var,
    While,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import F16, INTEGERS, VOID, Type, element_of

_NO_CONTROL = 0
_STORE = 3 << 16 | Op.STORE


class FunctionWriter(ExpressionWriter):
    """Writes one function to the module."""

    handlers = {**ExpressionWriter.handlers, Builtin: builtins.translate, Convert: conversions.translate}  # noqa: RUF012

    def __init__(self, module: ModuleBuilder, functions: dict[str, int], variables: dict[str, int]) -> None:
        super().__init__(module, functions, variables)
        self.locals: dict[int, int] = {}
        """The types of pointers to the function's variables, by the variables."""
        self.open = True
        """Whether the current block has no end yet."""
        self.ends: list[int] = []
        """The blocks after the loops and switches around the statement."""
        self.continued: list[int] = []
        """The blocks that the loops around the statement continue with."""

    def function(self, function: Function, inputs: dict[str, int] | None = None) -> int:
        """Write a function; `inputs` are the variables of an entry point's parameters. Returns its id."""
        module, number = self.module, self.module.new()
        given = [] if inputs is not None else [(p.name, module.type(p.type)) for p in function.parameters]
        result = module.type(function.result)
        kind = module.function_type(result, (kind for _, kind in given))
        words = [5 << 16 | Op.FUNCTION, result, number, 0, kind]
        for name, type_ in given:
            self.ids[name] = module.new()
            words += (3 << 16 | Op.FUNCTION_PARAMETER, type_, self.ids[name])
        first = self.label = module.new()
        for parameter in function.parameters if inputs else ():
            self.ids[parameter.name] = self.typed(Op.LOAD, parameter.type, (inputs or {})[parameter.name])
        self._statements(function.body.statements)
        if self.open:
            self.act(Op.RETURN if function.result is VOID else Op.UNREACHABLE)
        words += (2 << 16 | Op.LABEL, first)
        for variable in sorted(self.read):
            words += (4 << 16 | Op.VARIABLE, self.locals[variable], variable, StorageClass.FUNCTION)
        module.functions += words
        module.functions += self.first
        module.functions += self._without_stores(self.locals.keys() - self.read)
        module.functions.append(1 << 16 | Op.FUNCTION_END)
        return number

    def _without_stores(self, variables: set[int]) -> list[int]:
        """The body without stores to these variables."""
        if not variables:
            return self.body
        kept, body, at, start = [], self.body, 0, 0
        while at < len(body):
            head = body[at]
            if head == _STORE and body[at + 1] in variables:
                kept += body[start:at]
                start = at + 3
            at += head >> 16
        kept += body[start:]
        return kept

    # Statements

    @contextmanager
    def _scope(self) -> Iterator[None]:
        ids, bounds = self.ids, self.bounds
        self.ids, self.bounds = ids.copy(), bounds.copy()
        yield
        self.ids, self.bounds = ids, bounds

    def _statements(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            if not self.open:
                return
            handler = self._statement_handlers.get(type(statement))
            if handler is None:
                raise ValueError(f"no SPIR-V for {type(statement).__name__}")
            handler(self, statement)

    def _block(self, block: Block) -> None:
        with self._scope():
            self._statements(block.statements)

    def _let(self, let: Let) -> None:
        self.ids[let.name] = self.value(let.value)
        bound = self.most(let.value) if element_of(let.value.type) in INTEGERS else None
        if bound is None:
            self.bounds.pop(let.name, None)
        else:
            self.bounds[let.name] = bound

    def _var(self, var: Var) -> None:
        value = self.value(var.value) if var.value else 0
        pointer, number = self._pointer(var.type), self.module.new()
        self.locals[number] = pointer
        self.ids[var.name] = number
        if value:
            self._store(number, value)

    def _pointer(self, kind: Type) -> int:
        return self.module.pointer(StorageClass.FUNCTION, self.module.type(kind))

    def _assign(self, assign: Assign) -> None:
        value = self.value(assign.value)
        if isinstance(assign.value, Convert) and element_of(assign.value.type) is F16 and _in_binding(assign.target):
            self.module.round_to_even(value)
        self._store(self.place(assign.target), value)
        base = assign.target
        if not isinstance(base, Name):
            while isinstance(base, Index | Member | Swizzle):
                base = base.base
            if isinstance(base, Name):
                self.stored.pop(self.ids[base.name], None)

    def _store(self, place: int, value: int) -> None:
        if place not in self.locals:
            self.act(Op.STORE, place, value)
        elif self.stored.get(place) != value:
            self.stored[place] = value
            self.body += (_STORE, place, value)

    def _evaluate(self, evaluate: Evaluate) -> None:
        self.value(evaluate.call)

    def _return(self, statement: Return) -> None:
        if statement.value is None:
            self._end(Op.RETURN)
        else:
            self._end(Op.RETURN_VALUE, self.value(statement.value))

    def _break(self, _: Break) -> None:
        self._end(Op.BRANCH, self.ends[-1])

    def _continue(self, _: Continue) -> None:
        self._end(Op.BRANCH, self.continued[-1])

    # Blocks

    def _end(self, op: int, *operands: int) -> None:
        """End the current block."""
        self.act(op, *operands)
        self.open = False

    def _open(self, label: int) -> None:
        self.begin(label)
        self.open = True

    def _into(self, block: Block, label: int, after: int) -> bool:
        """A block that continues with another, as a block of its own; whether its end is reached."""
        self._open(label)
        values = self.values.copy()
        self._block(block)
        self.values = values
        reached = self.open
        if reached:
            self._end(Op.BRANCH, after)
        return reached

    def _if(self, statement: If) -> None:
        condition = self.value(statement.condition)
        then, after = self.module.new(), self.module.new()
        otherwise = self.module.new() if statement.otherwise.statements else after
        self.act(Op.SELECTION_MERGE, after, _NO_CONTROL)
        self._end(Op.BRANCH_CONDITIONAL, condition, then, otherwise)
        before = self.stored.copy()
        ways = [self.stored] if self._into(statement.then, then, after) else []
        self.stored = before
        if otherwise == after or self._into(statement.otherwise, otherwise, after):
            ways.append(self.stored)
        self._open(after)
        if ways:
            self.stored = dict(ways[0].items() & ways[-1].items())
        else:
            self._end(Op.UNREACHABLE)

    def _switch(self, switch: Switch) -> None:
        selector, after = self.value(switch.selector), self.module.new()
        default = self.module.new() if switch.default.statements else after
        labels = [self.module.new() for _ in switch.cases]
        cases = zip(labels, switch.cases, strict=True)
        words = [word for label, (numbers, _) in cases for n in numbers for word in (n & 0xFFFFFFFF, label)]
        self.act(Op.SELECTION_MERGE, after, _NO_CONTROL)
        self._end(Op.SWITCH, selector, default, *words)
        self.ends.append(after)
        before = self.stored
        for label, (_, block) in zip(labels, switch.cases, strict=True):
            self.stored = before.copy()
            self._into(block, label, after)
        if default != after:
            self.stored = before.copy()
            self._into(switch.default, default, after)
        self.ends.pop()
        self.stored = {}
        self._open(after)

    def _for(self, loop: For) -> None:
        with self._scope():
            if loop.first:
                self._statements((loop.first,))
            self._loop(loop.condition, loop.body, loop.update)

    def _while(self, loop: While) -> None:
        self._loop(loop.condition, loop.body, None)

    def _endless(self, loop: Loop) -> None:
        self._loop(None, loop.body, None)

    def _loop(self, condition: Expression | None, body: Block, update: Statement | None) -> None:
        head, test, inside, again, after = (self.module.new() for _ in range(5))
        self._end(Op.BRANCH, head)
        self.stored = {}
        self._open(head)
        self.act(Op.LOOP_MERGE, after, again, _NO_CONTROL)
        self._end(Op.BRANCH, test)
        self._open(test)
        if condition:
            self._end(Op.BRANCH_CONDITIONAL, self.value(condition), inside, after)
        else:
            self._end(Op.BRANCH, inside)
        self.ends.append(after)
        self.continued.append(again)
        self._into(body, inside, again)
        self.stored = {}
        self._open(again)
        values = self.values.copy()
        if update:
            self._statements((update,))
        self._end(Op.BRANCH, head)
        self.values, self.stored = values, {}
        self.ends.pop()
        self.continued.pop()
        self._open(after)

    _statement_handlers: dict[type, Callable[[FunctionWriter, Any], None]] = {  # noqa: RUF012
        Let: _let,
        Var: _var,
        Assign: _assign,
        Evaluate: _evaluate,
        If: _if,
        Switch: _switch,
        For: _for,
        While: _while,
        Loop: _endless,
        Break: _break,
        Continue: _continue,
        Return: _return,
        Block: _block,
    }


def _in_binding(place: Expression) -> bool:
    """Whether a place is an element of a binding."""
    return isinstance(place, Index) and isinstance(place.base, Name) and place.base.space == "storage"
