"""Reads the bodies of functions."""

from __future__ import annotations

from deploykit.compiler.codegen.shaders.wgsl.reading import resolving
from deploykit.compiler.codegen.shaders.wgsl.reading.errors import Unreadable
from deploykit.compiler.codegen.shaders.wgsl.reading.expressions import ExpressionReader
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import (
    Assign,
    Block,
    Break,
    Builtin,
    Call,
    Continue,
    Evaluate,
    Expression,
    For,
    If,
    Let,
    Literal,
    Loop,
    Name,
    Return,
    Statement,
    Switch,
    Var,
    While,
)
from deploykit.compiler.codegen.shaders.wgsl.reading.types import BOOL, VOID, Type

_ASSIGNMENTS = frozenset((*(f"{symbol}=" for symbol in "+-*/%&|^"), "<<=", ">>="))


class StatementReader(ExpressionReader):
    """Reads statements of a function whose result has the type `result`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.result: Type = VOID
        self._handlers = {
            "let": self._let,
            "var": self._var,
            "if": self._if,
            "for": self._for,
            "while": self._while,
            "loop": self._loop,
            "switch": self._switch,
            "return": self._return,
            "break": self._break,
            "continue": self._continue,
        }

    def _block(self) -> Block:
        self._take("{")
        outer, self.names = self.names, self.names.copy()
        statements: list[Statement] = []
        while not self._taken("}"):
            statements.append(self._statement())
        self.names = outer
        return Block(tuple(statements))

    def _statement(self) -> Statement:
        word = self.tokens[self.at]
        handler = self._handlers.get(word)
        if handler:
            self.at += 1
            return handler()
        if word == "{":
            return self._block()
        statement = self._simple()
        self._take(";")
        return statement

    def _simple(self) -> Statement:
        """An assignment or a call."""
        target = self._expression()
        symbol = self._next()
        if symbol == "=":
            return Assign(target, resolving.expect(self._expression(), target.type))
        if symbol in _ASSIGNMENTS:
            value = resolving.binary(symbol[:-1], target, self._expression())
            return Assign(target, resolving.expect(value, target.type))
        self.at -= 1
        if isinstance(target, Call | Builtin):
            return Evaluate(target)
        raise Unreadable(f"the statement {symbol!r}")

    def _let(self) -> Statement:
        name, kind = self._declared()
        self._take("=")
        value = self._expression()
        value = resolving.expect(value, kind) if kind else resolving.concrete(value)
        self._take(";")
        self.names[name] = Name(value.type, name)
        return Let(name, value)

    def _var(self) -> Statement:
        name, kind = self._declared()
        value = self._expression() if self._taken("=") else None
        if value:
            value = resolving.expect(value, kind) if kind else resolving.concrete(value)
            kind = value.type
        if not kind:
            raise Unreadable(f"{name} has no type")
        self._take(";")
        self.names[name] = Name(kind, name, "function")
        return Var(name, kind, value)

    def _declared(self) -> tuple[str, Type | None]:
        return self._name(), self._type() if self._taken(":") else None

    def _condition(self) -> Expression:
        return resolving.expect(self._expression(), BOOL)

    def _if(self) -> Statement:
        condition, then = self._condition(), self._block()
        if not self._taken("else"):
            return If(condition, then, Block(()))
        return If(condition, then, Block((self._if(),)) if self._taken("if") else self._block())

    def _for(self) -> Statement:
        self._take("(")
        outer, self.names = self.names, self.names.copy()
        first = None if self._taken(";") else self._statement()
        condition = None if self.tokens[self.at] == ";" else self._condition()
        self._take(";")
        update = None if self.tokens[self.at] == ")" else self._simple()
        self._take(")")
        body = self._block()
        self.names = outer
        return For(first, condition, update, body)

    def _while(self) -> Statement:
        return While(self._condition(), self._block())

    def _loop(self) -> Statement:
        return Loop(self._block())

    def _switch(self) -> Statement:
        selector = resolving.concrete(self._expression())
        cases: list[tuple[tuple[int, ...], Block]] = []
        default: Block | None = None
        self._take("{")
        while not self._taken("}"):
            if self._taken("default"):
                self._taken(":")
                default = self._block()
                continue
            self._take("case")
            numbers: list[int] = []
            while self.tokens[self.at] not in (":", "{"):
                number = resolving.expect(self._expression(), selector.type)
                if not isinstance(number, Literal):
                    raise Unreadable("a case that is no number")
                numbers.append(int(number.value))
                self._taken(",")
            self._taken(":")
            cases.append((tuple(numbers), self._block()))
        return Switch(selector, tuple(cases), default or Block(()))

    def _return(self) -> Statement:
        value = None if self.tokens[self.at] == ";" else resolving.expect(self._expression(), self.result)
        if (value is None) != (self.result is VOID):
            raise Unreadable("a return with another result")
        self._take(";")
        return Return(value)

    def _break(self) -> Statement:
        self._take(";")
        return Break()

    def _continue(self) -> Statement:
        self._take(";")
        return Continue()
