"""Templates of conversations as programs: what Jinja says becomes steps on a stack of values.

`runtime/language/template.c` runs them. A program is a header (a magic word, the number of steps, the number of texts),
the steps, a table of the texts (where each begins, its bytes), and the texts; all words have 32 bits, little-endian.
A statement that has no steps becomes one that refuses the conversation, and is named in `lacks`.

Variables follow Jinja: a loop, a macro and a block that is kept have variables of their own, which begin as those
outside, or as what the caller gives. The special tokens of the model are constants.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from deploykit.language.programs.expressions import Expressions
from deploykit.language.programs.markup import unmarked
from deploykit.language.programs.steps import NoProgram, Scope, numbers

if TYPE_CHECKING:
    from jinja2 import nodes

MAGIC = 0x31544B44


class Program(NamedTuple):
    """The steps, and what the template says that has none."""

    steps: bytes
    lacks: tuple[str, ...]


def program_of(template: nodes.Template, special: Mapping[str, str]) -> Program:
    """The program of a template that Jinja has read. Raises `NoProgram`."""
    compiler = _Statements(special)
    compiler.template(template)
    table, at = b"", 0
    for text in compiler.texts:
        table += struct.pack("<2I", at, len(text))
        at += len(text)
    words = MAGIC, len(compiler.steps), len(compiler.texts), *compiler.steps
    steps = struct.pack(f"<{len(words)}I", *words) + table + b"".join(compiler.texts)
    return Program(steps, tuple(dict.fromkeys(compiler.lacks)))


class _Loop(NamedTuple):
    again: int
    breaks: list[int]
    captures: int
    """Blocks that are kept around it."""


class _Statements(Expressions):
    def __init__(self, special: Mapping[str, str]) -> None:
        super().__init__(special)
        self.captures = 0
        self.rounds: list[_Loop] = []
        self.lacks: list[str] = []

    def template(self, template: nodes.Template) -> None:
        self.unmarked = unmarked(template)
        for macro in _macros(template.body):
            if macro.name in self.macros:
                raise NoProgram(f"two macros '{macro.name}' in line {macro.lineno}")
            self.macros[macro.name] = macro
        begin = self.emit("ENTER")
        self.open((), template.body)
        self.body(template.body)
        self.emit("END")
        self.steps[begin] |= self.slots << 16
        outer = self.scope
        places = {name: self.macro(macro, outer) for name, macro in self.macros.items()}
        for at, name in self.calls:
            self.steps[at] |= places[name] << 8

    def macro(self, macro: nodes.Macro, outer: Scope) -> int:
        """Where the steps of a macro begin. Arguments are its first variables."""
        self.slots = 0
        names = [argument.name for argument in macro.args]
        begin = self.emit("ENTER", len(names))
        self.scope = Scope(outer, macro=True)
        for name in names:
            self.scope.slots[name] = self.new()
        first = len(names) - len(macro.defaults)
        for number, name in enumerate(names):
            self.emit("LOAD", number)
            given = self.emit("JUMP_GIVEN")
            if number >= first:
                self.node(macro.defaults[number - first])
            else:
                self.emit("UNDEFINED")
            self.emit("STORE", self.scope.slots[name])
            self.land(given)
        self.scoped(macro.body)
        self.emit("RETURN")
        self.steps[begin] |= self.slots << 16
        return begin

    def open(self, names: Sequence[str], body: Sequence[nodes.Node]) -> None:
        """Begin variables: `names`, and those that the body sets, which begin as they are outside."""
        scope = Scope(self.scope, self.scope.macro)
        for name in dict.fromkeys(_stored(body)):
            if name in self.macros:
                raise NoProgram(f"a variable with the name of a macro, '{name}'")
            if name not in names:
                self.load(name)
                scope.slots[name] = self.new()
                self.emit("STORE", scope.slots[name])
        for name in names:
            scope.slots[name] = self.new()
        self.scope = scope

    def close(self) -> None:
        assert self.scope.outer is not None
        self.scope = self.scope.outer

    def scoped(self, body: Sequence[nodes.Node]) -> None:
        self.open((), body)
        self.body(body)
        self.close()

    def body(self, body: Sequence[nodes.Node]) -> None:
        """Statements. One that has no steps refuses the conversation."""
        for node in body:
            steps, calls, loops, rounds = (len(each) for each in (self.steps, self.calls, self.loops, self.rounds))
            scope, captures = self.scope, self.captures
            try:
                self.node(node)
            except NoProgram as reason:
                del self.steps[steps:], self.calls[calls:], self.loops[loops:], self.rounds[rounds:]
                self.scope, self.captures = scope, captures
                for each in self.rounds:
                    each.breaks[:] = [place for place in each.breaks if place < steps]
                self.lacks.append(str(reason))
                self.text(f"{reason} is for Python alone")
                self.call("raise", 1)
                self.emit("POP")

    @contextmanager
    def captured(self) -> Iterator[None]:
        """What is written meanwhile is a value on the stack afterwards."""
        self.emit("CAPTURE")
        self.captures += 1
        yield
        self.captures -= 1
        self.emit("CAPTURED")

    def on_output(self, node: nodes.Output) -> None:
        from jinja2 import nodes

        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                self.text(part.data, "DATA")
            else:
                self.text_of(part)
                self.emit("OUT")

    def on_if(self, node: nodes.If) -> None:
        ends = []
        for branch in (node, *node.elif_):
            self.node(branch.test)
            other = self.emit("JUMP_FALSE")
            self.body(branch.body)
            ends.append(self.emit("JUMP"))
            self.land(other)
        self.body(node.else_)
        self.land(*ends)

    def on_macro(self, node: nodes.Macro) -> None:
        if self.macros.get(node.name) is not node:
            raise NoProgram(f"the macro '{node.name}' within a loop or a macro")

    def on_assign(self, node: nodes.Assign) -> None:
        from jinja2 import nodes

        if isinstance(node.target, nodes.NSRef):
            self.load(node.target.name)
            self.node(node.node)
            self.text(node.target.attr, "SET_FIELD")
            return
        if isinstance(node.target, nodes.Name) and node.target.name in self.unmarked:
            self.text_of(node.node)
        else:
            self.node(node.node)
        self.store(node.target)

    def on_assignblock(self, node: nodes.AssignBlock) -> None:
        with self.captured():
            self.scoped(node.body)
        self.chain(node.filter)
        self.store(node.target)

    def on_filterblock(self, node: nodes.FilterBlock) -> None:
        with self.captured():
            self.scoped(node.body)
        self.chain(node.filter)
        self.emit("OUT")

    def chain(self, node: nodes.Node | None) -> None:
        """Filters of the value on the stack."""
        from jinja2 import nodes

        if isinstance(node, nodes.Filter):
            self.chain(node.node)
            self.filtered(node)

    def on_scope(self, node: nodes.Scope) -> None:
        self.scoped(node.body)

    def on_with(self, node: nodes.With) -> None:
        self.several(node.values)
        self.open([name for target in node.targets for name in _names(target)], ())
        for target in reversed(node.targets):
            self.store(target)
        self.scoped(node.body)
        self.close()

    def store(self, target: nodes.Node) -> None:
        from jinja2 import nodes

        if isinstance(target, nodes.Tuple):
            self.emit("UNPACK", len(target.items))
            for item in target.items:
                self.store(item)
        elif isinstance(target, nodes.Name):
            self.emit("STORE", self.scope.slots[target.name])
        else:
            raise NoProgram(f"a value for a {type(target).__name__}")

    def on_for(self, node: nodes.For) -> None:
        if node.recursive:
            raise NoProgram("a recursive loop")
        self.items_of(node.iter)
        if node.test is not None:
            self.chosen(node.target, node.test)
        self.emit("FOR")
        self.loops.append(True)
        again = self.emit("NEXT")
        self.rounds.append(_Loop(again, [], self.captures))
        self.open(_names(node.target), node.body)
        self.store(node.target)
        self.body(node.body)
        self.close()
        self.emit("JUMP", again)
        self.land(again, *self.rounds.pop().breaks)
        if node.else_:
            self.emit("LOOP", numbers("dk_loop_part")["LENGTH"])
        self.loops.pop()
        self.emit("DONE")
        if node.else_:
            self.emit("NOT")
            end = self.emit("JUMP_FALSE")
            self.scoped(node.else_)
            self.land(end)

    def chosen(self, target: nodes.Node, test: nodes.Node) -> None:
        """The items of a loop with a condition, as a list."""
        again, item = self.collect(), self.new()
        self.emit("STORE", item)
        self.emit("LOAD", item)
        self.open(_names(target), ())
        self.store(target)
        self.node(test)
        self.close()
        self.kept(again, item)

    def on_break(self, node: nodes.Break) -> None:
        self.round(node).breaks.append(self.emit("JUMP"))

    def on_continue(self, node: nodes.Continue) -> None:
        self.emit("JUMP", self.round(node).again)

    def round(self, node: nodes.Node) -> _Loop:
        """The loop that a statement is for."""
        if self.rounds[-1].captures != self.captures:
            raise NoProgram(f"'{type(node).__name__.lower()}' out of a block that is kept")
        return self.rounds[-1]


def _macros(body: Sequence[nodes.Node]) -> Iterator[nodes.Macro]:
    """The macros that the template defines outside loops and macros."""
    from jinja2 import nodes

    for node in body:
        if isinstance(node, nodes.Macro):
            yield node
        elif isinstance(node, nodes.If):
            yield from _macros((*node.body, *node.elif_, *node.else_))


def _stored(body: Sequence[nodes.Node]) -> Iterator[str]:
    """The variables that statements set, outside loops and macros within them."""
    from jinja2 import nodes

    for node in body:
        if isinstance(node, nodes.Assign | nodes.AssignBlock):
            yield from _names(node.target)
        elif isinstance(node, nodes.If):
            yield from _stored((*node.body, *node.elif_, *node.else_))


def _names(target: nodes.Node) -> list[str]:
    """The variables of a target."""
    from jinja2 import nodes

    if isinstance(target, nodes.Tuple):
        return [name for item in target.items for name in _names(item)]
    return [target.name] if isinstance(target, nodes.Name) else []
