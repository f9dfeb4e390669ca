"""Cells: tensor expressions of one instance that run as one function over a batch of nodes.

The expressions of which control flow needs the values at the same time become one cell. Equal cells
are one, wherever they are recorded, so that their nodes run together. A part that does not depend on what a loop or a
recursion computes one after the other, such as the projection of an LSTM's inputs, becomes a cell of its own if it
holds a product (`parts`): all its nodes are ready at once (ACRoBat's hoisting). Large products of matrices that may be
rows of a weight become cells of their own, too: nodes of a large cell with the same operand are one.

A cell as a function has the operands `pool`, which is the memory of all tensors, for each operand the offsets of its
rows in the pool, and integers, all `[nodes]`; its results are `[nodes, ...]`. Operands are gathered by the kernels that
read them. A cell that takes nothing but the number of a row, such as that of the leaves of a tree, is computed for all
rows when the model is built, and becomes a look-up (`tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from deploykit.compiler.batching.control import Expr
from deploykit.compiler.batching.operators import OPERATORS, Batched
from deploykit.compiler.batching.techniques import ALL, Techniques
from deploykit.compiler.batching.tensors import Apply, Expression, Filled, Joined, Known, Shape, Weight, is_constant

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.model import ModelBuilder, Values
    from deploykit.compiler.operators.building.value import Value


TABLE_BYTES = 8 << 20
"""The largest tables of the results of a cell for each integer that it may take."""


LARGE = 4096
"""The least elements of results, and `DEEP` the least products in each, that are worth more than to keep them in memory
and to look them up."""
DEEP = 64


@dataclass(frozen=True)
class Operand:
    """Entry of a cell: the value of an operand."""

    index: int
    shape: Shape


@dataclass(frozen=True)
class Constant:
    """Entry of a cell: a weight, or a tensor of equal numbers."""

    shape: Shape
    source: str | float


@dataclass(frozen=True)
class Step:
    """Entry of a cell: an operator, whose operands are earlier entries and, behind them, integers."""

    shape: Shape
    operator: str
    operands: tuple[int, ...]
    attributes: tuple[int, ...]
    numbers: tuple[int, ...]
    joined: Joined


Entry: TypeAlias = Operand | Constant | Step


@dataclass(frozen=True)
class Cell:
    """`entries` in the order in which they are computed; `results` are the entries whose values leave the cell."""

    operands: tuple[Shape, ...]
    numbers: int
    entries: tuple[Entry, ...]
    results: tuple[int, ...]

    @property
    def gives(self) -> tuple[Shape, ...]:
        """The shapes of the results."""
        return tuple(self.entries[index].shape for index in self.results)

    @property
    def shareable(self) -> bool:
        """Whether it is worth a look-up to find out that a node with the same operand is there already: there is one
        operand or number, and the results are large."""
        return len(self.operands) + self.numbers == 1 and self.large

    @property
    def large(self) -> bool:
        """Whether nodes have so large results that they need no batches: caches hold few of them."""
        return sum(map(prod, self.gives)) >= LARGE

    @property
    def joined(self) -> list[Joined]:
        """What each operator stands for."""
        return [entry.joined for entry in self.entries if isinstance(entry, Step)]


@dataclass
class Cells:
    """The cells of a model. Each has a name after the function that first recorded it."""

    cells: list[Cell] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    _numbers: dict[Cell, int] = field(default_factory=dict)

    def record(
        self, wanted: Sequence[Expression], known: Mapping[Expression, Known], where: str
    ) -> tuple[int, tuple[Expr, ...]]:
        """The cell that computes expressions, and its operands: handles of values, then integers. `known` has the
        expressions that are computed already."""
        builder = _CellBuilder(known)
        results = tuple(builder.entry(each) for each in wanted)
        cell = Cell(tuple(builder.operands.values()), len(builder.numbers), tuple(builder.entries), results)
        if cell not in self._numbers:
            self._numbers[cell] = len(self.cells)
            self.cells.append(cell)
            self.names.append(self._unique(where))
        return self._numbers[cell], (*builder.operands, *builder.numbers)

    def _unique(self, where: str) -> str:
        name, number = where, 1
        while name in self.names:
            number += 1
            name = f"{where}_{number}"
        return name


def parts(
    wanted: Iterable[Expression],
    known: Mapping[Expression, Known],
    techniques: Techniques = ALL,
    rows: AbstractSet[Shape] = frozenset(),
) -> list[list[Expression]]:
    """The expressions to compute, in parts that become a cell each. They are neither known nor constant. `rows` are the
    shapes of matrices that are rows of weights."""
    distinct = list(dict.fromkeys(wanted))
    if not techniques.coarsening:
        return [[each] for each in _each(distinct, known)]
    early = _early(distinct, known) if techniques.hoisting else []
    late = [each for each in distinct if each not in early]
    alone = [each for each in _each(late, known) if _may_repeat(each, known, rows)] if techniques.sharing else []
    return [part for part in (early, *([each] for each in alone), [each for each in late if each not in alone]) if part]


def _may_repeat(node: Expression, known: Mapping[Expression, Known], rows: AbstractSet[Shape]) -> bool:
    """Whether an expression is a large product of a constant with a value of a shape that rows of a weight have: such
    as the matrix of a word, which many instances have."""
    if not isinstance(node, Apply) or node.operator != "matmul" or prod(node.shape) < LARGE:
        return False
    operands = [known.get(each, each) for each in node.operands]
    values = [each for each in operands if isinstance(each, Known)]
    constants = [each for each in operands if is_constant(each)]
    return len(values) == len(constants) == 1 and values[0].shape in rows and node.operands[0].shape[-1] >= DEEP


def _each(wanted: Sequence[Expression], known: Mapping[Expression, Known]) -> list[Expression]:
    """All operators that expressions need, operands first."""
    found: dict[Expression, None] = {}
    waiting = list(reversed(wanted))
    while waiting:
        node = waiting[-1]
        operands = node.operands if isinstance(node, Apply) else ()
        missing = [each for each in operands if each not in found and each not in known and _is_computed(each)]
        if missing:
            waiting += reversed(missing)
        else:
            found[waiting.pop()] = None
    return list(found)


def _is_computed(node: Expression) -> bool:
    return isinstance(node, Apply) and not is_constant(node)


def _early(wanted: Sequence[Expression], known: Mapping[Expression, Known]) -> list[Expression]:
    """The parts of expressions to compute in a cell of their own, because they do not vary."""
    if not any(each.varying for each in wanted):
        return []
    found: dict[Expression, None] = {each: None for each in wanted if not each.varying}
    waiting, seen = [each for each in wanted if each.varying], set(wanted)
    while waiting:
        node = waiting.pop()
        for operand in map(_undivided, node.operands if isinstance(node, Apply) else ()):
            if operand in seen or operand in known:
                continue
            seen.add(operand)
            if operand.varying:
                waiting.append(operand)
            elif not is_constant(operand) and _is_heavy(operand):
                found[operand] = None
    heavy = {each for each in found if _is_heavy(each, found.keys() - {each})}
    return [each for each in found if each in wanted or each in heavy]


def _undivided(node: Expression) -> Expression:
    """What an expression is a part of: its parts are taken where they are used."""
    while isinstance(node, Apply) and node.operator in ("part", "slice") and not is_constant(node):
        node = node.operands[0]
    return node


def _is_heavy(node: Expression, computed: AbstractSet[Expression] = frozenset()) -> bool:
    """Whether products have to run for an expression, in addition to what is computed."""
    if not isinstance(node, Apply) or node in computed:
        return False
    return OPERATORS[node.operator].heavy or any(_is_heavy(each, computed) for each in node.operands)


class _CellBuilder:
    """Numbers the entries of a cell, and its operands by their handles."""

    def __init__(self, known: Mapping[Expression, Known]) -> None:
        self.entries: list[Entry] = []
        self.operands: dict[Expr, Shape] = {}
        self.numbers: list[Expr] = []
        self._known = known
        self._entries: dict[Expr | Expression, int] = {}

    def entry(self, node: Expression) -> int:
        node = self._known.get(node, node)
        key = node.handle if isinstance(node, Known) else node
        if key not in self._entries:
            made = self._made(node)
            self.entries.append(made)
            self._entries[key] = len(self.entries) - 1
        return self._entries[key]

    def _made(self, node: Expression) -> Entry:
        match node:
            case Known(shape, handle):
                self.operands[handle] = shape
                return Operand(len(self.operands) - 1, shape)
            case Weight(shape, name):
                return Constant(shape, name)
            case Filled(shape, value):
                return Constant(shape, value)
            case Apply():
                operands = tuple(map(self.entry, node.operands))
                numbers = tuple(self._number(number) for number in node.numbers)
                return Step(node.shape, node.operator, operands, node.attributes, numbers, node.joined)

    def _number(self, number: Expr) -> int:
        if number not in self.numbers:
            self.numbers.append(number)
        return self.numbers.index(number)


def evaluate(node: Expression, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """The value of a constant expression."""
    assert is_constant(node)
    match node:
        case Weight(_, name):
            return weights[name]
        case Filled(shape, value):
            return np.full(shape, value, np.float32)
        case Apply():
            operands = [evaluate(each, weights) for each in node.operands]
            return np.asarray(OPERATORS[node.operator].evaluate(*operands, *node.attributes), np.float32)
    raise AssertionError(node)


def compute(
    cell: Cell, operands: Sequence[np.ndarray], numbers: Sequence[int], weights: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """The results of a cell for one node, by NumPy."""
    found: list[np.ndarray] = []
    for entry in cell.entries:
        match entry:
            case Operand(index):
                found.append(operands[index])
            case Constant(shape, source):
                found.append(weights[source] if isinstance(source, str) else np.full(shape, source, np.float32))
            case Step():
                given = [*(found[index] for index in entry.operands), *(numbers[index] for index in entry.numbers)]
                result = OPERATORS[entry.operator].evaluate(*given, *entry.attributes)
                found.append(np.asarray(result, np.float32))
    return [found[index] for index in cell.results]


def tables(cell: Cell, weights: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """The results of a cell for each integer that it may take; None if it takes more than the number of a row or does
    nothing but read it, or if the tables were larger than `TABLE_BYTES`. The cell is then a look-up."""
    rows = [cell.entries[step.operands[0]].shape[0] for step in _steps(cell) if step.operator == "row"]
    if cell.operands or cell.numbers != 1 or not 0 < len(rows) < len(cell.joined):
        return None
    count = min(rows)
    if 4 * count * sum(map(prod, cell.gives)) > TABLE_BYTES:
        return None
    found = [compute(cell, (), (number,), weights) for number in range(count)]
    return [np.stack(column) for column in zip(*found, strict=True)]


def _steps(cell: Cell) -> Iterator[Step]:
    return (entry for entry in cell.entries if isinstance(entry, Step))


def add_function(
    builder: ModelBuilder,
    name: str,
    cell: Cell,
    known: Sequence[np.ndarray] | None,
    weights: Mapping[str, np.ndarray],
    techniques: Techniques = ALL,
) -> None:
    """Add the cell to a model as a function of that name; `known` are its `tables`. The dims `nodes` and `elements` are
    those of all cells."""
    from deploykit.compiler.model import Port

    nodes, elements = builder.dim("nodes", 1), builder.dim("elements", 1)
    rows = [Port(f"rows_{index}", "int32", (nodes,)) for index in range(len(cell.operands))]
    numbers = [Port(f"numbers_{index}", "int32", (nodes,)) for index in range(cell.numbers)]
    pool = [Port("pool", "float32", (elements,))] if rows else []

    def body(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        if known is not None:
            return {f"result_{i}": _looked_up(ctx, table, given["numbers_0"]) for i, table in enumerate(known)}, {}
        emitted: list[Batched] = []
        for entry in cell.entries:
            emitted.append(_emitted(ctx, entry, emitted, given, weights, techniques))
        return {f"result_{i}": emitted[index].value for i, index in enumerate(cell.results)}, {}

    builder.function(name, [*pool, *rows, *numbers], body)


def _looked_up(ctx: Context, table: np.ndarray, numbers: Value) -> Value:
    from deploykit.compiler.operators.building.context import Site
    from deploykit.compiler.operators.indexing import pick

    ctx.site = Site("row", "table")
    return pick(ctx, ctx.constant(table), numbers, 0)


def _emitted(
    ctx: Context,
    entry: Entry,
    before: Sequence[Batched],
    given: Values,
    weights: Mapping[str, np.ndarray],
    techniques: Techniques,
) -> Batched:
    from deploykit.compiler.operators.building.context import Site

    match entry:
        case Operand(index, shape):
            ctx.site = Site("operand", f"operand_{index}")
            rows = given[f"rows_{index}"]
            return Batched(_gathered(ctx, given["pool"], rows, shape, fused=techniques.gathering), shape)
        case Constant(shape, source):
            array = weights[source] if isinstance(source, str) else np.full(shape, source, np.float32)
            return Batched(ctx.constant(array), shape, shared=True)
        case Step():
            ctx.site = Site(entry.operator, entry.operator)
            operator = OPERATORS[entry.operator]
            operands = [before[index] for index in entry.operands]
            numbers = [Batched(given[f"numbers_{index}"], ()) for index in entry.numbers]
            if not numbers and all(operand.shared for operand in operands):
                arrays = [operand.value.array for operand in operands]
                value = np.asarray(operator.evaluate(*arrays, *entry.attributes), np.float32)
                return Batched(ctx.constant(value), entry.shape, shared=True)
            return Batched(operator.emit(ctx, [*operands, *numbers], entry.attributes), entry.shape)


def _gathered(ctx: Context, pool: Value, rows: Value, shape: Shape, *, fused: bool) -> Value:
    """The rows of an operand: `rows` are the offsets of their first elements in the pool."""
    from tvm import ir, te, tirx

    from deploykit.compiler.operators.building.expressions import compute
    from deploykit.compiler.operators.building.kernel_calls import INJECTIVE, OPAQUE

    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]

    def build(elements: te.Tensor, offsets: te.Tensor) -> te.Tensor:
        def element(node: ir.Expr, *index: ir.Expr) -> ir.Expr:
            within = sum((i * stride for i, stride in zip(index, strides, strict=True)), start=tirx.const(0, "int64"))
            return elements(tirx.Cast("int64", offsets(node)) + within)

        return compute((rows.shape[0], *shape), element, name="operand")

    return ctx.kernel("operand", build, pool, rows, dtype="float32", pattern=INJECTIVE if fused else OPAQUE)
