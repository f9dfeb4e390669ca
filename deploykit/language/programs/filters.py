"""Filters and tests of templates as steps; see `steps.py`. They change the value on the stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from deploykit.language.programs.steps import BIAS, NoProgram, Steps, arguments, counted, named, numbers

if TYPE_CHECKING:
    from jinja2 import nodes

_ITERABLE = ("STRING", "LIST", "TUPLE", "MAP", "UNDEFINED")
_KINDS = {
    "undefined": ("UNDEFINED", "MISSING"),
    "defined": ("NONE", "BOOL", "INT", "NUMBER", "STRING", "LIST", "TUPLE", "MAP", "NAMESPACE"),
    "none": ("NONE",),
    "boolean": ("BOOL",),
    "integer": ("INT",),
    "float": ("NUMBER",),
    "number": ("BOOL", "INT", "NUMBER"),
    "string": ("STRING",),
    "mapping": ("MAP",),
    "iterable": _ITERABLE,
    "sequence": _ITERABLE,
}
"""Tests that ask for the kind of a value."""

_FILTERS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("string", "length", "first", "last", "list", "reverse", "dictsort"), (0, 0)),
    **dict.fromkeys(("upper", "lower", "capitalize"), (0, 0)),
    "strip": (0, 1),
    "replace": (2, 3),
}
"""Filters that are functions, in the same way."""

_OF_TEXTS = ("strip", "replace", "upper", "lower", "capitalize")
"""Filters that first make a text of a value."""

_LAZY = ("map", "select", "reject", "selectattr", "rejectattr", "items", "reverse")
"""Filters that give something to go over once, which is neither empty nor a list."""

_NAMES = {"trim": "strip", "count": "length", "d": "default"}

_TESTS = {"equalto": "eq", "==": "eq", "eq": "eq", "ne": "ne", "!=": "ne", "in": "in"}
"""Tests that compare."""


class Filters(Steps):
    """Steps for filters and tests."""

    def items_of(self, node: nodes.Node) -> None:
        """A value of which only the items matter."""
        from jinja2 import nodes

        if isinstance(node, nodes.Filter) and node.name in _LAZY and node.node is not None:
            self.items_of(node.node)
            self.filtered(node)
        else:
            self.node(node)

    def on_filter(self, node: nodes.Filter) -> None:
        if node.node is None:
            raise NoProgram("a filter of nothing")
        if node.name in _LAZY:
            raise NoProgram(f"the filter '{node.name}' without 'list'")
        if node.name in ("list", "join", "first"):
            self.items_of(node.node)
        else:
            self.node(node.node)
        self.filtered(node)

    def filtered(self, node: nodes.Filter) -> None:
        name = _NAMES.get(node.name, node.name)
        found: Callable[[nodes.Filter], None] | None = getattr(self, f"filter_{name}", None)
        if found is not None:
            found(node)
        elif name in _FILTERS:
            if name in _OF_TEXTS:
                self.call("string", 1)
            self.call(name, 1 + self.several(counted(name, arguments(node), *_FILTERS[name])))
        else:
            raise NoProgram(f"the filter '{node.name}'")

    def filter_default(self, node: nodes.Filter) -> None:
        from jinja2 import nodes

        given = arguments(node, ("default_value", "boolean"))
        boolean = given[1] if len(given) > 1 else None
        if boolean is not None and not isinstance(boolean, nodes.Const):
            raise NoProgram("the filter 'default' with a condition")
        if boolean is not None and boolean.value:
            end = self.emit("JUMP_TRUE_KEEP")
            self.node(given[0])
            self.land(end)
            return
        if given:
            self.node(given[0])
        else:
            self.text("")
        self.call("default", 2)

    def filter_tojson(self, node: nodes.Filter) -> None:
        from jinja2 import nodes

        given = named(node)
        indent, escaped = given.pop("indent", None), given.pop("ensure_ascii", None)
        others = [value for value in given.values() if not isinstance(value, nodes.Const) or value.value]
        if node.args or others:
            raise NoProgram("the filter 'tojson' with other arguments than 'indent' and 'ensure_ascii'")
        for value, usual in ((indent, "NONE"), (escaped, "FALSE")):
            if value is None:
                self.emit(usual)
            else:
                self.node(value)
        self.call("tojson", 3)

    def filter_join(self, node: nodes.Filter) -> None:
        given = counted("join", arguments(node, ("d",)), 0, 1)
        if not self.several(given):
            self.text("")
        self.call("join", 2)

    def filter_items(self, node: nodes.Filter) -> None:
        counted("items", arguments(node), 0, 0)
        self.emit("MAP")
        self.call("default", 2)
        self.call("items", 1)

    def filter_map(self, node: nodes.Filter) -> None:
        from jinja2 import nodes

        others = named(node)
        attribute = others.pop("attribute", None)
        self.or_nothing()
        again = self.collect()
        if isinstance(attribute, nodes.Const) and not others and not node.args:
            self.path(attribute.value)
        elif attribute is None and node.args and isinstance(node.args[0], nodes.Const):
            self.filtered(nodes.Filter(None, node.args[0].value, node.args[1:], node.kwargs, None, None))
        else:
            raise NoProgram("the filter 'map' with such arguments")
        self.emit("APPEND")
        self.collected(again)

    def filter_select(self, node: nodes.Filter) -> None:
        self.selected(node, attribute=False, rejects=False)

    def filter_reject(self, node: nodes.Filter) -> None:
        self.selected(node, attribute=False, rejects=True)

    def filter_selectattr(self, node: nodes.Filter) -> None:
        self.selected(node, attribute=True, rejects=False)

    def filter_rejectattr(self, node: nodes.Filter) -> None:
        self.selected(node, attribute=True, rejects=True)

    def selected(self, node: nodes.Filter, *, attribute: bool, rejects: bool) -> None:
        """The items of a list for which a test is true, or of which a part is."""
        given = arguments(node)
        path, test = (given[:1], given[1:]) if attribute else ([], given)
        names = [getattr(part, "value", None) for part in (*path, *test[:1])]
        if not all(isinstance(name, str) for name in names) or (attribute and not path):
            raise NoProgram(f"the filter '{node.name}' with such arguments")
        self.or_nothing()
        again, item = self.collect(), self.new()
        self.emit("STORE", item)
        self.emit("LOAD", item)
        if attribute:
            self.path(str(names[0]))
        if test:
            self.tested(str(names[-1]), test[1:])
        if rejects:
            self.emit("NOT")
        self.kept(again, item)

    def kept(self, again: int, item: int) -> None:
        """Collect an item if the value on the stack is true."""
        self.emit("JUMP_FALSE", again)
        self.emit("LOAD", item)
        self.emit("APPEND")
        self.collected(again)

    def or_nothing(self) -> None:
        """An empty list in the place of something false, such as None."""
        end = self.emit("JUMP_TRUE_KEEP")
        self.emit("LIST")
        self.land(end)

    def collect(self) -> int:
        """Begin to collect values in a loop over the value on the stack; where a round begins."""
        self.emit("FOR", 1)
        self.loops.append(False)
        return self.emit("NEXT")

    def collected(self, again: int) -> None:
        self.emit("JUMP", again)
        self.land(again)
        self.loops.pop()
        self.emit("DONE")

    def path(self, path: str) -> None:
        for name in path.split("."):
            if name.isdigit():
                raise NoProgram(f"the part '{path}'")
            self.text(name, "FIELD")

    def on_test(self, node: nodes.Test) -> None:
        if node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
            raise NoProgram(f"the test '{node.name}' with such arguments")
        self.node(node.node)
        self.tested(node.name, node.args)

    def tested(self, name: str, given: Sequence[nodes.Expr]) -> None:
        if name in _KINDS and not given:
            kinds = numbers("dk_kind")
            self.emit("IS", sum(1 << kinds[kind] for kind in _KINDS[name]))
        elif name in ("true", "false") and not given:
            self.call(f"is_{name}", 1)
        elif name in ("odd", "even") and not given:
            self.emit("INT", BIAS + 2)
            self.emit("MODULO")
            self.emit("INT", BIAS + (name == "odd"))
            self.emit("EQUAL")
        elif name in _TESTS and len(given) == 1:
            self.compared(None, _TESTS[name], given[0])
        else:
            raise NoProgram(f"the test '{name}'")
