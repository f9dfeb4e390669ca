"""How tensors flow from cell to cell, found in the control flow: which cells can run at the same time, and how deep a
chain of them is.

`stages` follows handles through variables, calls and the heap until nothing changes. What a variable may hold is a set
of sources: results of nodes, and words that were allocated. All words for one variable are one record, all items of a
list are one, and all calls of a function are one call, so a cell may be said to follow another one that it never
follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

from deploykit.compiler.batching import control
from deploykit.compiler.batching.control import Control, ControlFunction, Expr, Statement
from deploykit.dynamic.types import LIST_FIRST


class Node(NamedTuple):
    """Where a function records nodes of a cell: the variable of their first result."""

    function: str
    slot: int


class Words(NamedTuple):
    """The words that a function allocates for a variable; `inside`, those that a list refers to as its items."""

    function: str
    slot: int
    inside: bool = False


Sources: TypeAlias = frozenset[Node | Words]
Key = TypeVar("Key")

NOTHING: Sources = frozenset()


@dataclass(frozen=True)
class Stage:
    """Where a cell is in the flow of tensors.

    `after` are the cells that its operands come from. Cells of the same `phase` may depend on each other in both
    directions; those of an earlier phase never depend on those of a later one. `depth` is the number of nodes in the
    longest chain that ends here, None if it depends on the instance."""

    after: tuple[int, ...]
    phase: int
    depth: int | None


@dataclass(frozen=True)
class Summary:
    """What a function of the control flow does: the functions that it calls, those of them that it calls several times
    at once, the cells that it records, and whether it waits for the value of a tensor."""

    name: str
    calls: tuple[str, ...]
    together: tuple[str, ...]
    cells: tuple[int, ...]
    waits: bool


def stages(control: Control, cells: int) -> list[Stage]:
    """The stage of each of `cells` cells."""
    flow = _Flow(control)
    depths = _depths({node: _nodes(sources) for node, sources in flow.operands.items()})
    after: dict[int, set[int]] = {cell: set() for cell in range(cells)}
    deepest: dict[int, list[int | None]] = {cell: [] for cell in range(cells)}
    for node, sources in flow.operands.items():
        after[flow.cells[node]] |= {flow.cells[other] for other in _nodes(sources)}
        deepest[flow.cells[node]].append(depths[node])
    phases: dict[int, int] = {}
    for cell, earlier, _ in _in_order(after):
        phases[cell] = 1 + max((phases[other] for other in earlier), default=0)
    return [Stage(tuple(sorted(after[cell])), phases[cell], _most(deepest[cell])) for cell in range(cells)]


def summaries(control: Control) -> list[Summary]:
    return [_summary(function) for function in control.functions]


def _nodes(sources: Sources) -> set[Node]:
    return {source for source in sources if isinstance(source, Node)}


def _depths(after: Mapping[Node, set[Node]]) -> dict[Node, int | None]:
    depths: dict[Node, int | None] = {}
    for node, earlier, in_circle in _in_order(after):
        depth = _most([0, *(depths[other] for other in earlier)])
        depths[node] = None if in_circle or depth is None else depth + 1
    return depths


def _most(depths: Sequence[int | None]) -> int | None:
    known = [depth for depth in depths if depth is not None]
    return max(known, default=0) if len(known) == len(depths) else None


def _in_order(after: Mapping[Key, set[Key]]) -> Iterator[tuple[Key, set[Key], bool]]:
    """The nodes of a graph: each with the nodes that it depends on, those in a circle with it left out, and whether it
    is in a circle. The nodes that it depends on come first."""
    before = {node: reached(node, after) for node in after}
    for node in sorted(after, key=lambda node: len(before[node] | {node})):
        circle = {other for other in before[node] if node in before[other]}
        yield node, before[node] - circle, bool(circle)


def reached(node: Key, after: Mapping[Key, set[Key]]) -> set[Key]:
    """The nodes that a node depends on."""
    found: set[Key] = set()
    left = [node]
    while left:
        fresh = after[left.pop()] - found
        found |= fresh
        left += fresh
    return found


def _summary(function: ControlFunction) -> Summary:
    calls: dict[str, bool] = {}
    cells: dict[int, None] = {}
    waits = False
    for each in statements(function.body):
        match each:
            case control.Call():
                calls.setdefault(each.function, False)
            case control.CallAll(several):
                names = [call.function for call in several]
                calls |= {name: calls.get(name, False) or len(names) > 1 for name in names}
            case control.CallEach():
                calls[each.function] = True
            case control.Record():
                cells[each.cell] = None
            case control.Await():
                waits = True
    together = tuple(name for name, several in calls.items() if several)
    return Summary(function.name, tuple(calls), together, tuple(cells), waits)


def statements(block: Sequence[Statement]) -> Iterator[Statement]:
    """All statements of a block, and those within them."""
    for each in block:
        yield each
        match each:
            case control.If():
                yield from statements(each.then)
                yield from statements(each.otherwise)
            case control.Loop():
                yield from statements(each.body)
                yield from statements(each.step)


class _Flow:
    """What each variable, each word of the heap and each result of a function may hold, and the operands of nodes.
    Items of lists, to which other words refer or which have an index, are `inside`, at the offset None."""

    def __init__(self, control: Control) -> None:
        self.functions = {function.name: function for function in control.functions}
        self.cells: dict[Node, int] = {}
        self.operands: dict[Node, Sources] = {}
        self._variables: dict[tuple[str, int], Sources] = {}
        self._heap: dict[tuple[Words, int | None], Sources] = {}
        self._returned: dict[tuple[str, int], Sources] = {}
        while self._changes():
            pass

    def _changes(self) -> bool:
        """Follow all statements once."""
        before = self._size()
        for function in self.functions.values():
            for each in statements(function.body):
                self._follow(function.name, each)
        return self._size() > before

    def _size(self) -> int:
        tables = (self._variables.values(), self._heap.values(), self._returned.values(), self.operands.values())
        return sum(map(len, chain.from_iterable(tables)))

    def _follow(self, function: str, each: Statement) -> None:
        def value(expr: Expr) -> Sources:
            return self._value(function, expr)

        match each:
            case control.Set(variable, expr):
                _add(self._variables, (function, variable.slot), value(expr))
            case control.Call() | control.CallAll() | control.CallEach():
                self._call(function, each)
            case control.Record(cell, operands, results):
                node = Node(function, results[0])
                self.cells[node] = cell
                self.operands.setdefault(node, NOTHING)
                _add(self.operands, node, NOTHING.union(*map(value, operands)))
                for result in results:
                    _add(self._variables, (function, result), frozenset({node}))
            case control.Allocate(variable):
                _add(self._variables, (function, variable.slot), frozenset({Words(function, variable.slot)}))
            case control.Append(variable, source):
                made = Words(function, variable.slot)
                items = self._held(value(source), LIST_FIRST) | {made._replace(inside=True)}
                _add(self._variables, (function, variable.slot), frozenset({made}))
                _add(self._heap, (made, LIST_FIRST), items)
            case control.Store(target, expr):
                self._store(value(target.handle), _offset(target), value(expr))
            case control.Return(values):
                for word, expr in enumerate(values):
                    _add(self._returned, (function, word), value(expr))

    def _call(self, function: str, call: control.Call | control.CallAll | control.CallEach) -> None:
        if isinstance(call, control.CallAll):
            for each in call.calls:
                self._call(function, each)
            return
        for slot, operand in enumerate(call.operands):
            _add(self._variables, (call.function, slot), self._value(function, operand))
        for word in range(self.functions[call.function].results):
            given = self._returned.get((call.function, word), NOTHING)
            if isinstance(call, control.Call):
                _add(self._variables, (function, call.result + word), given)
            else:
                self._store(self._value(function, call.target), None, given)

    def _value(self, function: str, expr: Expr) -> Sources:
        match expr:
            case control.Variable(slot):
                return self._variables.get((function, slot), NOTHING)
            case control.Word(handle):
                return self._held(self._value(function, handle), _offset(expr))
            case control.Operation("+", operands):  # a handle and an offset
                sources = NOTHING.union(*(self._value(function, operand) for operand in operands))
                return frozenset(each._replace(inside=True) for each in sources if isinstance(each, Words))
            case _:
                return NOTHING

    def _held(self, places: Sources, offset: int | None) -> Sources:
        return NOTHING.union(*(self._heap.get(key, NOTHING) for key in _keys(places, offset)))

    def _store(self, places: Sources, offset: int | None, sources: Sources) -> None:
        for key in _keys(places, offset):
            _add(self._heap, key, sources)


def _offset(word: control.Word) -> int | None:
    return word.offset if word.index is None else None


def _keys(places: Sources, offset: int | None) -> Iterator[tuple[Words, int | None]]:
    for place in places:
        if isinstance(place, Words):
            key = None if place.inside else offset
            yield place._replace(inside=key is None), key


def _add(table: dict[Key, Sources], key: Key, sources: Sources) -> None:
    if sources:
        table[key] = table.get(key, NOTHING) | sources
