"""Expressions of templates as steps; see `steps.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deploykit.language.programs.filters import Filters
from deploykit.language.programs.steps import BIAS, NoProgram, arguments, counted, named, numbers

if TYPE_CHECKING:
    from jinja2 import nodes

_METHODS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("strip", "lstrip", "rstrip"), (0, 1)),
    **dict.fromkeys(("startswith", "endswith"), (1, 1)),
    **dict.fromkeys(("upper", "lower", "capitalize", "title", "items", "keys", "values"), (0, 0)),
    "split": (0, 2),
    "replace": (2, 3),
    "get": (1, 2),
}
"""Methods that are functions, and how many arguments they take, at least and at most."""

_OPERATORS = {"Add": "ADD", "Sub": "SUBTRACT", "Mul": "MULTIPLY", "Mod": "MODULO", "FloorDiv": "DIVIDE"}


class Expressions(Filters):
    """Steps for expressions."""

    def text_of(self, node: nodes.Node) -> None:
        """A value of which only the text matters: the filter `safe` does nothing."""
        from jinja2 import nodes

        if isinstance(node, nodes.Filter) and node.name == "safe" and node.node is not None:
            self.text_of(node.node)
        elif isinstance(node, nodes.CondExpr):
            self.chosen_by(node, self.text_of)
        else:
            self.node(node)

    def on_name(self, node: nodes.Name) -> None:
        self.load(node.name)

    def on_const(self, node: nodes.Const) -> None:
        value = node.value
        if value is None or isinstance(value, bool):
            self.emit(str(value).upper())
        elif isinstance(value, int):
            self.emit("INT", value + BIAS)
        elif isinstance(value, str):
            self.text(value)
        else:
            raise NoProgram(f"the number {value!r}")

    def on_templatedata(self, node: nodes.TemplateData) -> None:
        self.text(node.data)

    def on_list(self, node: nodes.List) -> None:
        self.emit("LIST", self.several(node.items))

    def on_tuple(self, node: nodes.Tuple) -> None:
        self.emit("TUPLE", self.several(node.items))

    def on_dict(self, node: nodes.Dict) -> None:
        for pair in node.items:
            self.several((pair.key, pair.value))
        self.emit("MAP", 2 * len(node.items))

    def on_getattr(self, node: nodes.Getattr) -> None:
        from jinja2 import nodes

        if isinstance(node.node, nodes.Name) and node.node.name == "loop" and not self.known("loop"):
            self.loop(node.attr)
            return
        if node.attr in dir(dict):
            raise NoProgram(f"the method '{node.attr}' as a value")
        self.node(node.node)
        self.text(node.attr, "FIELD")

    def loop(self, name: str) -> None:
        part = numbers("dk_loop_part").get(name.upper())
        if part is None or True not in self.loops:
            raise NoProgram(f"'loop.{name}'")
        self.emit("LOOP", part | self.loops[::-1].index(True) << 8)

    def on_getitem(self, node: nodes.Getitem) -> None:
        from jinja2 import nodes

        self.node(node.node)
        if not isinstance(node.arg, nodes.Slice):
            self.node(node.arg)
            self.emit("ITEM")
            return
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            if bound is None:
                self.emit("UNDEFINED")
            else:
                self.node(bound)
        self.emit("SLICE")

    def on_not(self, node: nodes.Not) -> None:
        self.node(node.node)
        self.emit("NOT")

    def on_neg(self, node: nodes.Neg) -> None:
        self.node(node.node)
        self.emit("NEGATE")

    def on_and(self, node: nodes.And) -> None:
        self.either(node, "JUMP_FALSE_KEEP")

    def on_or(self, node: nodes.Or) -> None:
        self.either(node, "JUMP_TRUE_KEEP")

    def either(self, node: nodes.BinExpr, jump: str) -> None:
        self.node(node.left)
        end = self.emit(jump)
        self.node(node.right)
        self.land(end)

    def on_binary(self, node: nodes.BinExpr) -> None:
        self.several((node.left, node.right))
        self.emit(_OPERATORS[type(node).__name__])

    on_add = on_sub = on_mul = on_mod = on_floordiv = on_binary

    def on_concat(self, node: nodes.Concat) -> None:
        for part in node.nodes:
            self.text_of(part)
        self.emit("JOIN", len(node.nodes))

    def on_compare(self, node: nodes.Compare) -> None:
        if len(node.ops) != 1:
            raise NoProgram("a chain of comparisons")
        self.compared(node.expr, node.ops[0].op, node.ops[0].expr)

    def on_condexpr(self, node: nodes.CondExpr) -> None:
        self.chosen_by(node, self.node)

    def chosen_by(self, node: nodes.CondExpr, value: Callable[[nodes.Node], None]) -> None:
        self.node(node.test)
        other = self.emit("JUMP_FALSE")
        value(node.expr1)
        end = self.emit("JUMP")
        self.land(other)
        if node.expr2 is None:
            self.emit("UNDEFINED")
        else:
            value(node.expr2)
        self.land(end)

    # Calls

    def on_call(self, node: nodes.Call) -> None:
        from jinja2 import nodes

        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise NoProgram("a call with '*'")
        if isinstance(node.node, nodes.Getattr):
            self.method(node.node, arguments(node, ("sep", "maxsplit") if node.node.attr == "split" else ()))
            return
        name = node.node.name if isinstance(node.node, nodes.Name) and not self.known(node.node.name) else ""
        if name in self.macros:
            self.macro_call(name, node)
        elif name == "namespace" and not node.args:
            for pair in node.kwargs:
                self.text(pair.key)
                self.node(pair.value)
            self.emit("NAMESPACE", 2 * len(node.kwargs))
        elif name == "dict" and not node.args:
            for pair in node.kwargs:
                self.text(pair.key)
                self.node(pair.value)
            self.emit("MAP", 2 * len(node.kwargs))
        elif name == "range":
            self.call("range", self.several(counted(name, arguments(node), 1, 3)))
        elif name in ("raise_exception", "strftime_now"):
            self.several(counted(name, arguments(node), 1, 1))
            self.call("raise" if name == "raise_exception" else "strftime", 1)
        else:
            raise NoProgram(f"a call of '{name or type(node.node).__name__}'")

    def method(self, method: nodes.Getattr, given: list[nodes.Expr]) -> None:
        self.node(method.node)
        name = method.attr
        if name == "join" and len(given) == 1:
            text = self.new()
            self.emit("STORE", text)
            self.node(given[0])
            self.emit("LOAD", text)
            self.call("join", 2)
        elif name in _METHODS:
            self.call(name, 1 + self.several(counted(name, given, *_METHODS[name])))
        else:
            raise NoProgram(f"the method '{name}'")

    def macro_call(self, name: str, node: nodes.Call) -> None:
        names = [arg.name for arg in self.macros[name].args]
        given: dict[str, nodes.Expr] = dict(zip(names, node.args, strict=False))
        others = named(node)
        if len(node.args) > len(names) or not others.keys() <= {*names} - {*given}:
            raise NoProgram(f"arguments that the macro '{name}' has not")
        given |= others
        for argument in names:
            if argument in given:
                self.node(given[argument])
            else:
                self.emit("MISSING")
        self.calls.append((self.emit("MACRO"), name))
