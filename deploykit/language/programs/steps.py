"""Steps of programs of templates, the variables that they know, and what writes the steps of a node.

The numbers of steps and functions are those of `runtime/language/template_values.h`. What has no steps is refused by
name: `NoProgram`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from deploykit import runtime

if TYPE_CHECKING:
    from jinja2 import nodes

BIAS = 1 << 23
"""What is added to a number in a step."""

_COMPARISONS = {
    "eq": ("EQUAL", False, False),
    "ne": ("EQUAL", False, True),
    "lt": ("LESS", False, False),
    "gteq": ("LESS", False, True),
    "gt": ("LESS", True, False),
    "lteq": ("LESS", True, True),
    "in": ("IN", False, False),
    "notin": ("IN", False, True),
}
"""A step, whether its operands change places, and whether the result is negated."""

_GIVEN = {"add_generation_prompt": "TRUE", "tools": "NONE", "documents": "NONE"}
"""What is given if the caller gives nothing."""

_NO_VALUES = ("loop", "caller", "varargs", "kwargs", "self", "namespace", "range", "dict", "cycler", "joiner", "lipsum")


class NoProgram(Exception):
    """What a template says that has no steps."""


@cache
def numbers(kind: str) -> Mapping[str, int]:
    """The names of an enumeration of `template_values.h`, without their prefix, and their numbers."""
    text = re.sub(r"/\*.*?\*/", "", runtime.TEMPLATE_VALUES.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.search(rf"typedef enum {kind} {{(.*?)}}", text, re.DOTALL)
    assert found is not None, kind
    names = [name.strip() for name in found[1].split(",")]
    return {re.sub(r"^DK_(V|OP|F|LOOP)_", "", name): number for number, name in enumerate(names)}


@dataclass
class Scope:
    """Variables: the slot of each name, in the frame of the template or of a macro."""

    outer: Scope | None
    macro: bool
    slots: dict[str, int] = field(default_factory=dict)


class Steps:
    """Steps, and the variables that they know."""

    def __init__(self, special: Mapping[str, str]) -> None:
        self.special = special
        self.steps: list[int] = []
        self.texts: dict[bytes, int] = {}
        self.macros: dict[str, nodes.Macro] = {}
        self.unmarked: set[str] = set()
        """Variables for which the filter `safe` does not matter."""
        self.calls: list[tuple[int, str]] = []
        """Steps that call macros."""
        self.scope = Scope(None, macro=False)
        self.slots = 0
        self.loops: list[bool] = []
        """Of each loop that goes on, whether the template calls it `loop`."""

    # Steps

    def emit(self, step: str, operand: int = 0) -> int:
        """Where the step is."""
        if not 0 <= operand < 1 << 24:
            raise NoProgram(f"a number that is too large, {operand}")
        self.steps.append(numbers("dk_op")[step] | operand << 8)
        return len(self.steps) - 1

    def land(self, *places: int) -> None:
        """Let jumps lead to the next step."""
        for place in places:
            self.steps[place] |= len(self.steps) << 8

    def call(self, function: str, count: int) -> None:
        self.emit("CALL", numbers("dk_function")[function.upper()] | count << 8)

    def text(self, text: str, step: str = "TEXT") -> None:
        self.emit(step, self.texts.setdefault(text.encode("utf-8", "surrogatepass"), len(self.texts)))

    # Variables

    def new(self) -> int:
        self.slots += 1
        return self.slots - 1

    def known(self, name: str) -> bool:
        """Whether it is a variable of the template."""
        scope: Scope | None = self.scope
        while scope is not None and name not in scope.slots:
            scope = scope.outer
        return scope is not None

    def load(self, name: str) -> None:
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.slots:
                self.emit("LOAD_OUTER" if self.scope.macro and not scope.macro else "LOAD", scope.slots[name])
                return
            scope = scope.outer
        if name in self.macros or name in _NO_VALUES:
            raise NoProgram(f"'{name}' as a value")
        if name in ("strftime_now", "raise_exception"):
            self.emit("TRUE")  # templates ask whether they are defined
        elif name in self.special:
            self.text(self.special[name])
        else:
            self.text(name, "GIVEN")
            if name in _GIVEN:
                self.emit(_GIVEN[name])
                self.call("default", 2)

    # Nodes

    def node(self, node: nodes.Node) -> None:
        """The steps of a node. Raises `NoProgram` with its line."""
        kind = type(node).__name__
        found: Callable[[Any], None] | None = getattr(self, f"on_{kind.lower()}", None)
        if found is None:
            raise NoProgram(f"'{kind}' in line {node.lineno}")
        try:
            found(node)
        except NoProgram as reason:
            raise reason if " in line " in str(reason) else NoProgram(f"{reason} in line {node.lineno}") from None

    def several(self, several: Sequence[nodes.Node]) -> int:
        for node in several:
            self.node(node)
        return len(several)

    def compared(self, left: nodes.Node | None, how: str, right: nodes.Node) -> None:
        """The result of a comparison; without a left operand, it is on the stack."""
        step, changed, negated = _COMPARISONS[how]
        if left is None and changed:
            raise NoProgram(f"a test by '{how}'")
        operands = [] if left is None else [left]
        self.several([right, *operands] if changed else [*operands, right])
        self.emit(step)
        if negated:
            self.emit("NOT")


def arguments(node: nodes.Call | nodes.Filter, names: Sequence[str] = ()) -> list[nodes.Expr]:
    """The arguments of a call, those with names in their places. Raises `NoProgram` for other names."""
    given, others = list(node.args), named(node)
    for name in names[len(given) :]:
        if name not in others:
            break
        given.append(others.pop(name))
    if others or node.dyn_args is not None or node.dyn_kwargs is not None:
        raise NoProgram(f"arguments with the names {', '.join(others) or '*'}")
    return given


def counted(name: str, given: list[nodes.Expr], least: int, most: int) -> list[nodes.Expr]:
    if not least <= len(given) <= most:
        raise NoProgram(f"'{name}' with {len(given)} arguments")
    return given


def named(node: nodes.Call | nodes.Filter) -> dict[str, nodes.Expr]:
    """The arguments of a call that have names."""
    return {str(pair.key): pair.value for pair in node.kwargs}
