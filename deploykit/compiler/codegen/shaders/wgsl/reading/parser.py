"""Reads a shader.

A first pass over the tokens finds the declarations, a second one reads the bodies of the functions that the entry point
reaches, so that a function can be called before it is declared. What the printer of WGSL does not emit is refused.
"""

from __future__ import annotations

from deploykit.compiler.codegen.shaders.wgsl.reading.errors import Unreadable
from deploykit.compiler.codegen.shaders.wgsl.reading.lexer import line_of
from deploykit.compiler.codegen.shaders.wgsl.reading.statements import StatementReader
from deploykit.compiler.codegen.shaders.wgsl.reading.tree import Block, Function, Module, Name, Parameter, Variable
from deploykit.compiler.codegen.shaders.wgsl.reading.types import VOID, Struct, Type


def read(text: str) -> Module:
    """The tree of a shader. Raises `Unreadable`, a `ValueError`, with the line for what cannot be read."""
    parser = _Parser(text)
    try:
        return parser.module()
    except Unreadable as error:
        number, line = line_of(text, parser.at)
        raise Unreadable(f"line {number} of a shader: {error}: {line}") from None


class _Parser(StatementReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.variables: dict[str, Variable] = {}
        self.starts: dict[str, int] = {}
        """The first token of the body of each function."""
        self.functions: dict[str, Function | None] = {}
        """The functions that were read, in order; None for one of which the body is not complete."""
        self.enabled: list[str] = []

    def module(self) -> Module:
        while not self.done:
            self._declaration()
        entries = [name for name, head in self.heads.items() if head.workgroup]
        if len(entries) != 1:
            raise Unreadable(f"{len(entries)} entry points")
        self._reach(entries[0])
        functions = tuple(function for function in self.functions.values() if function)
        variables = tuple(self.variables.values())
        return Module(tuple(self.enabled), tuple(self.structs.values()), variables, functions)

    def _declaration(self) -> None:
        attributes = self._attributes()
        word = self._next()
        if word == "enable":
            self.enabled.append(self._name())
            self._take(";")
        elif word == "diagnostic":
            while self._next() != ";":
                pass
        elif word == "struct":
            name = self._name()
            members: list[tuple[str, Type]] = []
            self._take("{")
            self._listed("}", lambda: members.append(self._typed()))
            self.structs[name] = Struct(name, tuple(members))
        elif word == "var":
            self._variable(attributes)
        elif word == "fn":
            self._function(attributes)
        else:
            self.at -= 1
            raise Unreadable(f"the declaration {word!r}")

    def _attributes(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        while self._taken("@"):
            arguments = found[self._name()] = []
            if self._taken("("):
                self._listed(")", lambda into=arguments: into.append(self._next()))  # type: ignore[misc]
        return found

    def _typed(self) -> tuple[str, Type]:
        name = self._name()
        self._take(":")
        return name, self._type()

    def _variable(self, attributes: dict[str, list[str]]) -> None:
        words: list[str] = []
        self._take("<")
        self._listed(">", lambda: words.append(self._next()))
        name, kind = self._typed()
        self._take(";")
        space, access = (*words, "read" if words[0] in ("uniform", "storage") else "read_write")[:2]
        binding = int(attributes["binding"][0]) if "binding" in attributes else None
        if attributes.get("group", ["0"]) != ["0"]:
            raise Unreadable("a binding of another group")
        self.variables[name] = Variable(name, kind, space, access, binding)

    def _function(self, attributes: dict[str, list[str]]) -> None:
        name = self._name()
        parameters: list[Parameter] = []
        self._take("(")
        self._listed(")", lambda: parameters.append(self._parameter()))
        result = self._type() if self._taken("->") else VOID
        size = tuple(int(number) for number in attributes.get("workgroup_size", ()))
        self.heads[name], self.starts[name] = Function(name, tuple(parameters), result, Block(()), size), self.at
        depth = 0
        while True:
            word = self._next()
            depth += (word == "{") - (word == "}")
            if not depth:
                return

    def _parameter(self) -> Parameter:
        builtin = self._attributes().get("builtin", [""])[0]
        return Parameter(*self._typed(), builtin)

    def _reach(self, name: str) -> None:
        """Read a function, and those that it calls before it."""
        if self.functions.get(name):
            return
        if name in self.functions:
            raise Unreadable(f"{name} calls itself")
        self.functions[name] = None
        head, self.called, self.at = self.heads[name], {}, self.starts[name]
        self.result = head.result
        self.names = {v.name: Name(v.type, v.name, v.space) for v in self.variables.values()}
        self.names |= {p.name: Name(p.type, p.name) for p in head.parameters}
        body = self._block()
        for called in self.called:
            self._reach(called)
        del self.functions[name]
        self.functions[name] = Function(name, head.parameters, head.result, body, head.workgroup)
