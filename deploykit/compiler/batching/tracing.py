"""Runs the control flow of a dynamic model in Python and records the nodes, to learn a policy from samples.

This is what the state machine of an artifact does (`codegen/host/control`), without any batch: a tensor is computed by
NumPy, and only where the control flow asks for its value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from struct import pack, unpack
from typing import Any, TypeAlias

import numpy as np

from deploykit.compiler.batching import control
from deploykit.compiler.batching.cells import Cell, compute, evaluate
from deploykit.compiler.batching.control import ControlFunction, Expr, Statement
from deploykit.compiler.batching.graphs import Graph
from deploykit.compiler.batching.model import DynamicModel
from deploykit.dynamic.encoding import encode
from deploykit.dynamic.functions import random
from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import LIST_ITEMS, Float, Tuple, Type
from deploykit.errors import DataError

Frame: TypeAlias = list[Any]
Running: TypeAlias = Generator[tuple[str, tuple[Any, ...]], list[Any], Any]
"""The run of a function, or of statements: gives calls, that is names and operands, and takes their results."""

_NUMBERS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    "neg": lambda a: -a,
    "from end": lambda index, count: index + count if index < 0 else index,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "not": lambda a: int(not a),
    "or": lambda *each: int(any(each)),
}


def traced(model: DynamicModel, instances: Sequence[Any]) -> Graph:
    """The nodes of all instances. Raises what encoding raises, and `DataError` where the model refuses an instance."""
    tracer = _Tracer(model)
    signature = Signature(model.control.takes, model.control.gives, model.unions)
    encoded = encode(signature, instances)
    tracer.words = encoded.words.tolist()
    tracer.elements = encoded.elements
    for root in encoded.roots.tolist():
        tracer.run(root)
    operands = [list(tracer.owners(*node)) for node in tracer.nodes]
    return Graph.of([cell for cell, _ in tracer.nodes], operands, len(model.cells))


def _numbers_of(kind: Type, words: Iterator[int]) -> Iterator[Any]:
    """The words of a value, with a float for each two words that hold one."""
    match kind:
        case Tuple(items):
            for item in items:
                yield from _numbers_of(item, words)
        case Float():
            yield unpack("=d", pack("=ii", next(words), next(words)))[0]
        case _:
            yield next(words)


@dataclass
class _Tracer:
    """`nodes` are cells with their operands, handles of values and then numbers. A value that is not in an instance has
    the handle -1 - its index in `values`."""

    model: DynamicModel
    words: list[int] = field(default_factory=list)
    elements: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))
    nodes: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    values: list[tuple[int, int]] = field(default_factory=list)
    """The node and the number of the result of each value; for a constant -1 and its number."""
    _shared: dict[tuple[int, int], int] = field(default_factory=dict)
    """The first results of nodes of shared nodes, by their cell and operand."""
    _computed: dict[int, list[np.ndarray]] = field(default_factory=dict)
    """The results of the nodes whose values were asked for, and of those that these depend on."""

    def __post_init__(self) -> None:
        self.functions = {function.name: function for function in self.model.control.functions}
        self.values = [(-1, number) for number in range(len(self.model.constants))]

    def owners(self, cell: int, operands: Sequence[int]) -> Iterator[int]:
        """The nodes that compute the operands of a node."""
        for value in operands[: len(self.model.cells[cell].operands)]:
            if value < 0 and self.values[-1 - value][0] >= 0:
                yield self.values[-1 - value][0]

    def run(self, root: Sequence[int]) -> None:
        """Run an instance. The stack of calls is explicit: instances may be deep."""
        first = list(_numbers_of(Tuple(tuple(kind for _, kind in self.model.control.takes)), iter(root)))
        stack = [self._function(self.model.control.functions[0], first)]
        results: list[Any] | None = None
        while stack:
            try:
                name, operands = next(stack[-1]) if results is None else stack[-1].send(results)
                stack.append(self._function(self.functions[name], list(operands)))
                results = None
            except StopIteration as end:
                stack.pop()
                results = end.value

    def _function(self, function: ControlFunction, operands: list[Any]) -> Running:
        frame: Frame = [0] * function.words
        slot = 0
        for operand in operands:
            frame[slot] = operand
            slot += 2 if isinstance(operand, float) else 1
        return (yield from self._block(function.body, frame))

    def _block(self, statements: Sequence[Statement], frame: Frame) -> Running:
        """Run statements; returns the results of the function where it ends, or a `Break` or `Continue`."""
        for each in statements:
            match each:
                case control.If(condition, then, otherwise):
                    end = yield from self._block(then if self._value(condition, frame) else otherwise, frame)
                case control.Loop():
                    end = yield from self._loop(each, frame)
                case control.Break() | control.Continue():
                    end = each
                case control.Return(values):
                    end = [self._value(value, frame) for value in values]
                case control.Call() | control.CallAll() | control.CallEach():
                    end = None
                    yield from self._calls(each, frame)
                case _:
                    end = None
                    self._effect(each, frame)
            if end is not None:
                return end
        return None

    def _loop(self, loop: control.Loop, frame: Frame) -> Running:
        while True:
            end = yield from self._block(loop.body, frame)
            if isinstance(end, control.Break):
                return None
            if isinstance(end, list):
                return end
            yield from self._block(loop.step, frame)

    def _calls(self, each: control.Call | control.CallAll | control.CallEach, frame: Frame) -> Running:
        if isinstance(each, control.CallEach):
            operands = tuple(self._value(operand, frame) for operand in each.operands)
            target = self._value(each.target, frame)
            for number in range(self._value(each.count, frame)):
                results = yield each.function, (*operands, number)
                self._store(target + number * each.width, results)
            return
        for call in each.calls if isinstance(each, control.CallAll) else (each,):
            operands = tuple(self._value(operand, frame) for operand in call.operands)
            results = yield call.function, operands
            slot = call.result
            for result in results:
                frame[slot] = result
                slot += 2 if isinstance(result, float) else 1

    def _store(self, place: int, values: Sequence[Any]) -> None:
        for value in values:
            words = unpack("=ii", pack("=d", value)) if isinstance(value, float) else (value,)
            self.words[place : place + len(words)] = words
            place += len(words)

    def _effect(self, each: Statement, frame: Frame) -> None:
        match each:
            case control.Set(variable, value):
                frame[variable.slot] = self._value(value, frame)
            case control.Record(cell, operands, results):
                self._record(cell, [self._value(operand, frame) for operand in operands], results, frame)
            case control.Allocate(variable, fixed, count, size):
                frame[variable.slot] = len(self.words)
                more = 0 if count is None else size * self._value(count, frame)
                self.words += [0] * (fixed + more)
            case control.Append(variable, source, size):
                frame[variable.slot] = self._appended(self._value(source, frame), size)
            case control.Store(word, value):
                self._store(self._place(word, frame), [self._value(value, frame)])
            case control.Await(variable, value):
                frame[variable.slot] = float(self._array(self._value(value, frame), ()).reshape(-1)[0])
            case control.Require(condition, message, value):
                if not self._value(condition, frame):
                    raise DataError(message.replace("{}", str(self._value(value, frame))))
            case _:
                raise ValueError(f"{each} is no statement of this kind")

    def _appended(self, source: int, size: int) -> int:
        """The handle of a list with one more item. The items are shared with the list before if there is room."""
        length, first = self.words[source : source + 2]
        used, room = self.words[first - 2 : first]
        handle = len(self.words)
        if length == used < room:
            self.words[first - 2] += 1
            self.words += [length + 1, first]
            return handle
        items = self.words[first : first + length * size]
        room = 2 * (length + 1)
        self.words += [length + 1, handle + LIST_ITEMS, length + 1, room, *items, *[0] * (size * (room - length))]
        return handle

    def _record(self, cell: int, operands: list[int], results: Sequence[int], frame: Frame) -> None:
        shared = self.model.shared(self.model.cells[cell])
        first = self._shared.get((cell, operands[0])) if shared else None
        if first is None:
            first = -1 - len(self.values)
            self.nodes.append((cell, tuple(operands)))
            self.values += [(len(self.nodes) - 1, number) for number in range(len(self.model.cells[cell].results))]
        if shared:
            self._shared[cell, operands[0]] = first
        for number, slot in enumerate(results):
            frame[slot] = first - number

    # Tensors

    def _array(self, value: int, shape: tuple[int, ...]) -> np.ndarray:
        """The elements of a value; those of a tensor in an instance have this shape."""
        if value >= 0:
            offset = self.words[value]
            return self.elements[offset : offset + prod(shape)].reshape(shape)
        node, number = self.values[-1 - value]
        if node < 0:
            return evaluate(self.model.constants[number], self.model.weights)
        self._compute(node)
        return self._computed[node][number]

    def _compute(self, node: int) -> None:
        """Compute a node, and first those that it depends on."""
        waiting = [node]
        while waiting:
            cell, operands = self.nodes[waiting[-1]]
            missing = [owner for owner in self.owners(cell, operands) if owner not in self._computed]
            if missing:
                waiting += missing
                continue
            done = waiting.pop()
            if done not in self._computed:
                self._computed[done] = self._results(self.model.cells[cell], operands)

    def _results(self, cell: Cell, operands: Sequence[int]) -> list[np.ndarray]:
        count = len(cell.operands)
        arrays = [self._array(value, shape) for value, shape in zip(operands[:count], cell.operands, strict=True)]
        return compute(cell, arrays, operands[count:], self.model.weights)

    # Numbers

    def _place(self, word: control.Word, frame: Frame) -> int:
        index = 0 if word.index is None else self._value(word.index, frame)
        return int(self._value(word.handle, frame) + word.offset + index)

    def _value(self, value: Expr | float, frame: Frame) -> Any:
        match value:
            case control.Number(number) | control.Real(number):
                return number
            case control.Variable(slot):
                return frame[slot]
            case control.Word():
                place = self._place(value, frame)
                return unpack("=d", pack("=ii", *self.words[place : place + 2]))[0] if value.real else self.words[place]
            case control.Constant(index):
                return -1 - index
            case control.AsReal(operand):
                return float(self._value(operand, frame))
            case control.NextState(state):
                return random(self._value(state, frame))[1]
            case control.RandomReal(state):
                return random((self._value(state, frame) - 0x9E3779B9) & 0xFFFFFFFF)[0]
            case control.FloatWord(operand):
                return unpack("=i", pack("=f", self._value(operand, frame)))[0]
            case control.Operation("and", operands):
                return int(all(self._value(operand, frame) for operand in operands))
            case control.Operation(operator, operands):
                return _NUMBERS[operator](*(self._value(operand, frame) for operand in operands))
            case _:
                return value  # an operand of a call, which is a number already
