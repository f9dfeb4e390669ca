"""A function of the source as control flow.

A function is read once for each combination of types, weights and varying tensors that calls give it, so that each
weight has cells of its own (ACRoBat's context sensitivity). A function without control flow is read where it is called.
Functions that call each other in a circle form a recursion: what such a call returns varies.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deploykit.compiler.batching import control
from deploykit.compiler.batching.cells import Cells, parts
from deploykit.compiler.batching.control import ControlFunction, Expr, Number, Operation, Statement, Variable, Word
from deploykit.compiler.batching.flow import reached
from deploykit.compiler.batching.layout.joining import join
from deploykit.compiler.batching.techniques import ALL, Techniques
from deploykit.compiler.batching.tensors import Apply, Expression, Filled, Known, Shape, Weight, is_constant
from deploykit.dynamic.types import Float, Int, List, Tensor, Tuple, Type, Union, width
from deploykit.frontends.python.declarations import Module
from deploykit.frontends.python.names import names_assigned
from deploykit.frontends.python.source import Refused
from deploykit.frontends.python.values import (
    TENSORS,
    ListValue,
    Scalar,
    TupleValue,
    UnionValue,
    Value,
    described,
    from_words,
    is_varying,
    places,
    type_of,
)

CONTROL_FLOW = (ast.If, ast.For, ast.While, ast.Match, ast.ListComp, ast.IfExp, ast.BoolOp, ast.Assert)

Given: TypeAlias = "tuple[Type, bool] | Weight"
"""What a call gives for a parameter: a value of a type, which may vary, or a weight."""


Carried: TypeAlias = "dict[str, tuple[Type, list[Variable]]]"
"""The names that a loop carries, with their types and variables."""


@dataclass(frozen=True)
class Callee:
    """A function of the source. `component` is equal for functions that call each other in a circle; `inline`: it has
    no control flow."""

    name: str
    node: ast.FunctionDef
    method: bool
    component: int
    inline: bool

    @property
    def parameters(self) -> list[ast.arg]:
        arguments = self.node.args
        found = [*arguments.posonlyargs, *arguments.args]
        return found[1:] if self.method else found

    @property
    def assigned(self) -> frozenset[str]:
        """The names that are local to the function, whether they have a value or not."""
        return frozenset(names_assigned(self.node.body))


@dataclass
class Program:
    """What the functions of a module have become so far. `read_body` reads the statements of one. `constants` are the
    expressions of constant values, by texts that are equal for equal ones."""

    module: Module
    callees: dict[str, Callee]
    read_body: Callable[[Reader, Sequence[ast.stmt], ast.FunctionDef], None]
    techniques: Techniques = ALL
    cells: Cells = field(default_factory=Cells)
    functions: dict[str, ControlFunction] = field(default_factory=dict)
    constants: dict[str, Expression] = field(default_factory=dict)
    _versions: dict[tuple[Callee, tuple[Given, ...]], str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    @property
    def matrices(self) -> set[Shape]:
        """The shapes of matrices that are rows of weights."""
        return {shape[1:] for shape in self.module.weights.values() if len(shape) > 2}

    def constant(self, node: Expression) -> control.Constant:
        """The handle of a constant value."""
        text = constant_text(node)
        self.constants.setdefault(text, node)
        return control.Constant(list(self.constants).index(text))

    def version(self, callee: Callee, given: tuple[Given, ...]) -> str:
        """The name of the control function for what a call gives. It is read when it is first asked for."""
        key = (callee, given)
        if key in self._versions:
            return self._versions[key]
        name = self._versions[key] = self.unique(callee.name)
        self.functions[name] = ControlFunction(name, 0, 0, 0, (), ())  # keeps the order
        reader = Reader(self, callee.component, self.returns(callee), name)
        reader.local = callee.assigned
        for parameter, each in zip(callee.parameters, given, strict=True):
            reader.take(parameter.arg, each)
        operands = len(reader.names)
        self.read_body(reader, callee.node.body, callee.node)
        self.functions[name] = reader.function(operands)
        return name

    def unique(self, name: str) -> str:
        """A name that no control function has yet."""
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        return name if number == 1 else f"{name}_{number}"

    def parameter(self, callee: Callee, parameter: ast.arg) -> Type:
        """The type of a parameter. Raises `Refused` if it has none."""
        if parameter.annotation is None:
            raise Refused(parameter, f"parameter '{parameter.arg}' of '{callee.name}' needs a type")
        return self.module.annotations().type(parameter.annotation)

    def returns(self, callee: Callee) -> Type:
        """The type that a function returns. Raises `Refused` if it does not say so."""
        if callee.node.returns is None:
            raise Refused(
                callee.node, f"'{callee.name}' needs the type of what it returns: 'def {callee.name}(...) -> T'"
            )
        return self.module.annotations().type(callee.node.returns)


def constant_text(node: Expression) -> str:
    """Equal for equal constant expressions."""
    match node:
        case Apply():
            return f"{node.operator}({', '.join(map(constant_text, node.operands))}; {node.attributes})"
        case Weight(_, name):
            return name
        case Filled(shape, value):
            return f"{value}{shape}"
        case Known():
            raise ValueError("a known value is not constant")


@dataclass
class Scope:
    """What is known at a point of a function: what names stand for, which expressions are computed already, and which
    ones are `parts` of those."""

    names: dict[str, Value] = field(default_factory=dict)
    known: dict[Expression, Known] = field(default_factory=dict)
    parts: dict[Expression, Expression] = field(default_factory=dict)

    def copy(self) -> Scope:
        return Scope(dict(self.names), dict(self.known), dict(self.parts))

    def learn(self, joined: Mapping[Expression, Expression]) -> None:
        """Note which expressions are computed, because those that they became are."""
        for node, made in joined.items():
            if made in self.known:
                self.known[node] = self.known[made]
            elif isinstance(made, Apply) and made.operator == "slice" and made.operands[0] in self.known:
                self.parts[node] = replace(made, operands=(self.known[made.operands[0]],))


class Reader:
    """Turns one function into statements. `block` is where the next statement goes."""

    def __init__(self, program: Program, component: int, returns: Type, name: str) -> None:
        self.program = program
        self.component = component
        self.returns = returns
        self.name = name
        self.names: list[str] = []
        self.object: int | None = None
        self.scope = Scope()
        self.block: list[Statement] = []
        self.local: frozenset[str] = frozenset()
        """The names that the function assigns somewhere, which hide those of the module."""
        self.later: frozenset[str] = frozenset()
        """The names that are used behind the current statement."""
        self.broken: set[str] = set()
        """The names that lack a value because of a fault."""
        self.loops: list[Carried] = []
        """What the loops around the current statement carry."""

    def function(self, operands: int) -> ControlFunction:
        return ControlFunction(
            self.name, operands, width(self.returns), len(self.names), tuple(self.names), tuple(self.block), self.object
        )

    def take(self, name: str, given: Given) -> None:
        """Add a parameter."""
        if isinstance(given, Weight):
            self.scope.names[name] = given
            return
        kind, varying = given
        self.scope.names[name] = self.parameter(kind, name, varying=varying)

    def parameter(self, kind: Type, name: str, *, varying: bool) -> Value:
        """The value of a parameter, in new variables."""
        if self.object is None and isinstance(kind, List | Union):
            self.object = len(self.names)
        return from_words(kind, iter(self.variables(kind, name)), varying=varying)

    def variables(self, kind: Type, name: str) -> list[Variable]:
        """New variables for a value of a type, one for each part."""
        slot, size = len(self.names), width(kind)
        self.names += [name] if size == 1 else [f"{name}_{number}" for number in range(size)]
        return places(kind, slot)

    def held(self, value: Expr, kind: Type, name: str) -> Variable:
        """A new variable that is set to a number."""
        (variable,) = self.variables(kind, name)
        self.emit(control.Set(variable, value))
        return variable

    def counting(self, first: Expr, count: Expr) -> tuple[Variable, control.If, control.Set]:
        """An index that goes from `first` up to `count`: its variable, where a loop over it ends, and its step."""
        index = self.held(first, Int(), "index")
        ends = control.If(Operation("<", (index, count)), (), (control.Break(),))
        return index, ends, control.Set(index, Operation("+", (index, Number(1))))

    @contextmanager
    def looped(self, count: Expr) -> Iterator[Variable]:
        """A loop over an index from 0 up to `count`: what is emitted meanwhile is its body."""
        index, ends, step = self.counting(Number(0), count)
        body: list[Statement] = [ends]
        with self.at(body, self.scope.copy()):
            yield index
        self.emit(control.Loop(tuple(body), (step,)))

    def emit(self, statement: Statement) -> None:
        self.block.append(statement)

    @contextmanager
    def at(self, block: list[Statement], scope: Scope) -> Iterator[None]:
        """Statements go to another block for a while, where other things are known."""
        outer = self.block, self.scope
        self.block, self.scope = block, scope
        try:
            yield
        finally:
            self.block, self.scope = outer

    # Values

    def words(self, value: Value, node: ast.AST) -> list[Expr]:
        """The words that hold a value, one for each part; its tensors are computed for that."""
        self.compute(list(_tensors_of(value)))
        match value:
            case Scalar(expr):
                return [expr]
            case TupleValue(items):
                return [word for item in items for word in self.words(item, node)]
            case UnionValue(handle) | ListValue(handle):
                return [handle]
            case Known(_, handle):
                return [handle]
            case Weight() | Filled() | Apply():
                return [self.handle(value)]
            case _:
                raise Refused(node, "only a loop can use this: make a list of it, such as '[x for x in ...]'")

    def handle(self, node: Expression) -> Expr:
        """The handle of a tensor that is computed."""
        if isinstance(node, Known):
            return node.handle
        return self.program.constant(node) if is_constant(node) else self.scope.known[node].handle

    def compute(self, nodes: Iterable[Expression]) -> None:
        """Record the cells that compute tensors."""
        wanted = [node for node in nodes if self._is_pending(node)]
        wanted = list(dict.fromkeys([*wanted, *self._beside(wanted)]))
        techniques = self.program.techniques
        joins = techniques.joining and techniques.coarsening
        joined = join(wanted, {**self.scope.known, **self.scope.parts}) if joins else {}
        names = {joined.get(node, node): self._name_of(node) for node in wanted}
        for part in parts(names, self.scope.known, techniques, self.program.matrices):
            cell, operands = self.program.cells.record(part, self.scope.known, self.name)
            slots = []
            for number, node in enumerate(part):
                slots.append(len(self.names))
                self.names.append(names.get(node) or f"value_{number}")
                self.scope.known[node] = Known(node.shape, Variable(slots[-1]), node.varying)
            self.emit(control.Record(cell, operands, tuple(slots)))
        self.scope.learn(joined)

    def _is_pending(self, node: Expression) -> bool:
        return not isinstance(node, Known) and not is_constant(node) and node not in self.scope.known

    def _beside(self, wanted: Sequence[Expression]) -> list[Expression]:
        """What names stand for that are used later, where it has work in common with `wanted`."""
        common = self._work(wanted)
        values = [self.scope.names[name] for name in sorted(self.later) if name in self.scope.names]
        pending = [node for value in values for node in _tensors_of(value) if self._is_pending(node)]
        return [node for node in pending if common & self._work([node])]

    def _work(self, nodes: Iterable[Expression]) -> set[Expression]:
        """The operators that have to run for tensors."""
        found: set[Expression] = set()
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if isinstance(node, Apply) and self._is_pending(node) and node not in found | self.scope.parts.keys():
                found.add(node)
                waiting += node.operands
        return found

    def _name_of(self, node: Expression) -> str | None:
        return next((name for name, value in self.scope.names.items() if value is node), None)

    def has_any(self, nodes: Sequence[ast.AST], kinds: tuple[type[ast.AST], ...]) -> bool:
        """Whether source has nodes of some kinds, or calls of functions with control flow."""
        for each in (inner for node in nodes for inner in ast.walk(node)):
            if isinstance(each, kinds):
                return True
            callee = callee_of(self, each) if isinstance(each, ast.Call) else None
            if callee is not None and not callee.inline:
                return True
        return False

    def is_straight(self, statements: Sequence[ast.stmt]) -> bool:
        """Whether statements have no control flow and call no function that has any."""
        return not self.has_any(statements, CONTROL_FLOW)

    def settle(self, names: Iterable[str]) -> None:
        """Compute the tensors that names stand for, before control flow parts."""
        values = [self.scope.names[name] for name in names if name in self.scope.names]
        self.compute([node for value in values for node in _tensors_of(value)])

    def coerced(self, value: Value, kind: Type, node: ast.AST, what: str) -> Value:
        """The value as one of a type. Raises `Refused` if it is of another one."""
        found = type_of(value)
        if found == kind:
            return value
        if isinstance(value, Scalar) and value.type == Int() and kind == Float():
            return Scalar(control.AsReal(value.expr), Float())
        if isinstance(value, TupleValue) and isinstance(kind, Tuple) and len(value.items) == len(kind.items):
            items = zip(value.items, kind.items, strict=True)
            return TupleValue(tuple(self.coerced(item, each, node, what) for item, each in items))
        raise Refused(node, f"{what} is {described(value)}, but must be {kind}")

    def move(self, targets: Sequence[Variable], value: Value, node: ast.AST) -> None:
        """Set variables to the parts of a value."""
        for target, word in zip(targets, self.words(value, node), strict=True):
            if word != target:
                self.emit(control.Set(target, word))

    def store(self, targets: Sequence[Word], words: Sequence[Expr]) -> None:
        """Set the words of a value behind a handle."""
        for target, word in zip(targets, words, strict=True):
            self.emit(control.Store(target, word))

    def call(self, callee: Callee, operands: Sequence[Value], node: ast.AST, hint: str) -> Value:
        """Call a function that is not inline."""
        made = self.prepared_call(callee, operands, node, hint)
        self.emit(made)
        return self.result(callee, made)

    def prepared_call(self, callee: Callee, operands: Sequence[Value], node: ast.AST, hint: str) -> control.Call:
        """A call, with new variables for its results."""
        own = callee.component == self.component
        given: list[Given] = []
        words: list[Expr] = []
        for parameter, operand in zip(callee.parameters, operands, strict=True):
            if isinstance(operand, Weight) and not own:
                given.append(operand)
                continue
            kind = self.program.parameter(callee, parameter)
            value = self.coerced(operand, kind, node, f"'{parameter.arg}' of '{callee.name}'")
            words += self.words(value, node)
            given.append((kind, own and (is_varying(value) or _holds_tensor(kind))))
        name = self.program.version(callee, tuple(given))
        result = self.variables(self.program.returns(callee), hint)[0].slot
        return control.Call(name, tuple(words), result)

    def result(self, callee: Callee, made: control.Call) -> Value:
        """What a call returned."""
        kind = self.program.returns(callee)
        return from_words(kind, iter(places(kind, made.result)), varying=callee.component == self.component)


def callee_of(reader: Reader, node: ast.Call) -> Callee | None:
    """The function of the module that a call names."""
    match node.func:
        case ast.Attribute(ast.Name("self"), name):
            return reader.program.callees.get(f"self.{name}")
        case ast.Name(name):
            return reader.program.callees.get(name)
        case _:
            return None


def require_plain(callee: Callee) -> None:
    """Raises `Refused` for a function that Python would not simply call with its operands."""
    node, arguments = callee.node, callee.node.args
    if node.decorator_list:
        raise Refused(node.decorator_list[0], "a function of a model has no decorators")
    others = [each for each in (arguments.vararg, *arguments.kwonlyargs, arguments.kwarg) if each is not None]
    if others:
        raise Refused(others[0], f"'{callee.name}' may have plain parameters only, each with a name and a type")


def _holds_tensor(kind: Type) -> bool:
    return isinstance(kind, Tensor) or (isinstance(kind, Tuple) and any(map(_holds_tensor, kind.items)))


def _tensors_of(value: Value) -> Iterator[Expression]:
    if isinstance(value, TENSORS):
        yield value
    elif isinstance(value, TupleValue):
        for item in value.items:
            yield from _tensors_of(item)


def components(calls: dict[str, set[str]]) -> dict[str, int]:
    """A number for each function, equal for those that call each other in a circle."""
    called = {name: reached(name, calls) for name in calls}
    numbers: dict[str, int] = {}
    for name, own in called.items():
        circle = [number for other, number in numbers.items() if other in own and name in called[other]]
        numbers[name] = circle[0] if circle else len(numbers)
    return numbers
