"""Joins operators of a cell: products of one operand with several weights become one product, as do sums of products.

    i, f = x @ wi + h @ ui, x @ wf + h @ uf    ->    both = concat(x, h) @ [wi wf]    i, f = both[:n], both[n:]
                                                                           [ui uf]

Operators of one type that are ready together are a batch (`scheduling`). Variables of a cell are put in one order
(`ordering`); the results of a joined batch are one tensor, a *block*, with its members in that order.

product       of one computed operand with constants of one shape: joined along the other axis of the constants, which
              are put together when the model is built
elementwise   joined if each operand is a whole block, constants, or one number for all; so a sum of blocks is a block.
              Others are left to be fused with what is around them
sum           of products of vectors with constants whose results nothing else uses: one product of the vectors, side by
              side. Computed ones that are not in one block already are copied, which is counted; this is done only
              where the kernel that computes or gathers a vector can write it there

An expression that is wanted itself is not joined with others: it would be copied out of its block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias, TypeGuard

from deploykit.compiler.batching.layout.ordering import ordered
from deploykit.compiler.batching.layout.scheduling import batches
from deploykit.compiler.batching.operators import OPERATORS
from deploykit.compiler.batching.tensors import Apply, Expression, Filled, Joined, Known, Weight, is_constant

Names: TypeAlias = Mapping[Expression, Expression]
_MOVE = Joined(operators=0)


def join(wanted: Sequence[Expression], known: Names) -> dict[Expression, Expression]:
    """What expressions become: those that are wanted, and those that they are computed from. `known` has what is known
    to stand for others."""
    reader = _Reader(known)
    outputs = [reader.read(node) for node in wanted]
    made = _Joiner(reader.nodes, outputs).made()
    return {node: made.get(read, read) for node, read in reader.found.items()}


@dataclass
class _Reader:
    """Makes equal expressions one. `nodes` are the operators to compute, operands before what takes them."""

    known: Names
    nodes: list[Apply] = field(default_factory=list)
    found: dict[Expression, Expression] = field(default_factory=dict)
    _equal: dict[Hashable, Expression] = field(default_factory=dict)

    def read(self, node: Expression) -> Expression:
        if node not in self.found:
            self.found[node] = self._read(self.known.get(node, node))
        return self.found[node]

    def _read(self, node: Expression) -> Expression:
        key: Hashable
        match node:
            case Known(_, handle):
                key = handle
            case Weight(_, name):
                key = name
            case Filled(shape, value):
                key = shape, value
            case Apply():
                operands = tuple(map(self.read, node.operands))
                node = replace(node, operands=operands)
                key = node.operator, operands, node.attributes, node.numbers
        read = self._equal.setdefault(key, node)
        if read is node and isinstance(node, Apply) and not is_constant(node):
            self.nodes.append(node)
        return read


@dataclass(frozen=True)
class _Term:
    """A product of a computed operand and a constant: `computed @ constant`, or `constant @ computed` if `turned`."""

    computed: Expression
    constant: Expression
    turned: bool

    def product(self, shape: tuple[int, ...], joined: Joined) -> Apply:
        operands = (self.constant, self.computed) if self.turned else (self.computed, self.constant)
        return Apply(shape, "matmul", operands, joined=joined)


def _term(node: Expression) -> _Term | None:
    """A product of a vector, or of the rows of a matrix, with a constant matrix."""
    if not isinstance(node, Apply) or node.operator != "matmul" or not node.shape:
        return None
    a, b = node.operands
    if is_constant(b) and not is_constant(a) and len(b.shape) == 2:
        return _Term(a, b, turned=False)
    if is_constant(a) and not is_constant(b) and len(a.shape) == 2 and len(b.shape) == 1:
        return _Term(b, a, turned=True)
    return None


class _Joiner:
    """Builds the operators anew. `new` has what operators became; a member of a block is a slice of it."""

    def __init__(self, nodes: Sequence[Apply], outputs: Sequence[Expression]) -> None:
        self.nodes = nodes
        self.wanted = set(outputs)
        self.uses = Counter(operand for node in nodes for operand in node.operands)
        self.new: dict[Expression, Expression] = {}
        self.terms: dict[Expression, tuple[_Term, ...]] = {}
        self.rows: dict[tuple[Expression, ...], Apply] = {}
        self._settled: dict[Expression, Expression] = {}

    def made(self) -> dict[Expression, Expression]:
        """What each operator becomes."""
        for batch in self.batches:
            members = sorted(self.members(batch), key=lambda node: self.places.get(node, 0))
            joined = self.joined(members)
            for node in batch:
                if not joined or node in self.wanted:
                    self.new[node] = self.alone(node)
        return {node: self.settled(self.new[node]) for node in self.nodes}

    @cached_property
    def batches(self) -> list[list[Apply]]:
        numbers = {node: number for number, node in enumerate(self.nodes)}
        kinds: dict[Hashable, int] = {}
        types: list[int] = []
        for node in self.nodes:
            key = _kind(node, [types[numbers[each]] if each in numbers else None for each in node.operands])
            types.append(kinds.setdefault(key, len(kinds)))
        operands = [[numbers[each] for each in node.operands if each in numbers] for node in self.nodes]
        return [[self.nodes[number] for number in batch] for batch in batches(types, operands)]

    def members(self, batch: Sequence[Apply]) -> list[Apply]:
        """The operators of a batch that may be joined."""
        return [node for node in batch if node not in self.wanted and node.shape]

    @cached_property
    def summands(self) -> dict[frozenset[Expression], tuple[Expression, ...]]:
        """The operands of products that are added to each other."""
        sums = [node.operands for node in self.nodes if node.operator == "add" and self.alone_in(node)]
        found = [[term.computed for term in map(_term, operands) if term is not None] for operands in sums]
        both = [given for given in found if len(set(given)) > 1 and given[0].varying == given[1].varying]
        return {frozenset(given): tuple(given) for given in both}

    @cached_property
    def places(self) -> dict[Expression, int]:
        """Places of variables, so that the operands of a batch are side by side and in the order of its results."""
        lists: list[Sequence[Sequence[Expression]]] = []
        blocks: set[frozenset[Expression]] = set()
        for batch in self.batches:
            members = self.members(batch)
            columns = [column for column in _columns(members) if _is_list(column)]
            if len(members) < 2:
                continue
            if _term(members[0]):
                lists.append([members])
            elif OPERATORS[members[0].operator].elementwise and self.fits(members, columns, blocks):
                lists.append([members, *columns])
            else:
                continue
            blocks.add(frozenset(members))
        lists += [[given] for given in self.summands.values()]
        numbers: dict[Expression, int] = {}
        for node in (node for every in lists for variables in every for node in variables):
            numbers.setdefault(node, len(numbers))
        found = ordered([[tuple(numbers[node] for node in each) for each in every] for every in lists])
        place = {number: at for at, number in enumerate(found.order)}
        return {node: place[number] for node, number in numbers.items()}

    def fits(
        self,
        members: Sequence[Apply],
        columns: Sequence[Sequence[Expression]],
        blocks: AbstractSet[frozenset[Expression]],
    ) -> bool:
        """Whether elementwise operators may become one: their operands are whole blocks, or a product takes them."""
        return frozenset(members) in self.summands or all(frozenset(column) in blocks for column in columns)

    def joined(self, members: Sequence[Apply]) -> bool:
        """Make one operator of those of a batch, in this order; whether that is possible."""
        if len(members) < 2:
            return False
        whole = self.product(members) if _term(members[0]) else self.elementwise(members)
        if whole is not None:
            self.new |= _slices(whole, members)
        return whole is not None

    def product(self, members: Sequence[Apply]) -> Apply:
        terms = [term for term in map(_term, members) if term is not None]
        constant = _together([term.constant for term in terms], below=terms[0].turned)
        joint = replace(terms[0], computed=self.value(terms[0].computed), constant=constant)
        return joint.product(_wide(members), Joined(len(members)))

    def elementwise(self, members: Sequence[Apply]) -> Apply | None:
        first = members[0]
        if not OPERATORS[first.operator].elementwise:
            return None
        feeds = frozenset(members) in self.summands
        operands: list[Expression] = []
        for column in _columns(members):
            operand = self.column(column, first.shape[-1])
            if operand is None or (_is_slice(operand) and not feeds):
                return None
            operands.append(operand)
        blocks = [each for each in operands if each.shape and not is_constant(each)]
        made = Apply(_wide(members), first.operator, tuple(operands), first.attributes)
        made = replace(made, joined=Joined(len(members), len(members) * len(blocks)))
        return self.summed(made) if all(map(self.alone_in, members)) else made

    def column(self, column: Sequence[Expression], size: int) -> Expression | None:
        """The operand that stands for one of each member: a number for all, constants, or neighbours in a block."""
        first = column[0]
        if all(each is first for each in column) and (not first.shape or first.shape[-1] == 1):
            return self.value(first)
        if any(each.shape != first.shape or not each.shape or each.shape[-1] != size for each in column):
            return None
        if all(map(is_constant, column)):
            return _together(column, below=False)
        return _run(list(map(self.value, column)))

    def alone(self, node: Apply) -> Apply:
        made = replace(node, operands=tuple(map(self.value, node.operands)))
        return self.summed(made) if self.alone_in(node) else made

    def alone_in(self, node: Apply) -> bool:
        """Whether nothing else uses the operands of an operator."""
        return all(self.uses[each] == 1 and each not in self.wanted for each in node.operands)

    def value(self, node: Expression) -> Expression:
        return self.new.get(node, node)

    def summed(self, made: Apply) -> Apply:
        """A sum of products as one product, if it is one; else the operator itself."""
        found = [self.terms_of(each) for each in made.operands]
        terms = [term for every in found for term in every]
        kinds = {(term.turned, term.computed.varying) for term in terms}
        fits = made.operator == "add" and all(found) and all(each.shape == made.shape for each in made.operands)
        fits = fits and len(kinds) == 1 and all(_moves_freely(term.computed) for term in terms)
        if not fits or len({term.computed for term in terms}) < len(terms):
            return made
        in_block = _run_of(term.computed for term in terms)
        if in_block:
            terms.sort(key=lambda term: _offset(term.computed))
        constant = _together([term.constant for term in terms], below=not terms[0].turned)
        joint = _Term(self.side_by_side(tuple(term.computed for term in terms)), constant, terms[0].turned)
        counted = sum(each.joined.operators for each in made.operands if isinstance(each, Apply))
        beside = len(terms) if in_block and joint.computed not in self.rows.values() else 0
        product = joint.product(made.shape, Joined(made.joined.operators + counted, beside))
        self.terms[product] = tuple(terms)
        return product

    def terms_of(self, node: Expression) -> tuple[_Term, ...]:
        term = _term(node)
        return self.terms.get(node, () if term is None else (term,))

    def side_by_side(self, given: tuple[Expression, ...]) -> Expression:
        """Tensors as one along the last axis: neighbours in a block, or a block of their own. Values with a handle are
        read from wherever they are, so that it costs nothing to put them together."""
        run = _run(given)
        if run is not None:
            return run
        if given not in self.rows:
            gathered = sum(not isinstance(each, Known) for each in given)
            row = replace(_together(given, below=False), joined=Joined(0, 0, gathered))
            self.rows[given] = row
            if not gathered and not self.new.keys() & set(given):
                self.new |= _slices(row, given)
        return self.rows[given]

    def settled(self, node: Expression) -> Expression:
        """An expression that was built before a value with a handle became part of a block, which it now reads."""
        if not isinstance(node, Apply) or is_constant(node):
            return self.new.get(node, node) if isinstance(node, Known) else node
        if node not in self._settled:
            rows = node in self.rows.values()
            operands = node.operands if rows else tuple(map(self.settled, node.operands))
            same = all(one is other for one, other in zip(operands, node.operands, strict=True))
            self._settled[node] = node if same else replace(node, operands=operands)
        return self._settled[node]


def _moves_freely(node: Expression) -> bool:
    """Whether a vector can be written anywhere by the kernel that computes or gathers it."""
    if len(node.shape) != 1 or not isinstance(node, Apply):
        return isinstance(node, Known) and len(node.shape) == 1
    return node.operator in ("slice", "part") or OPERATORS[node.operator].elementwise


def _slices(whole: Apply, members: Sequence[Expression]) -> dict[Expression, Expression]:
    """The members of a block."""
    size = members[0].shape[-1]
    return {
        node: Apply(node.shape, "slice", (whole,), (number * size, size), joined=_MOVE)
        for number, node in enumerate(members)
    }


def _is_slice(node: Expression) -> TypeGuard[Apply]:
    return isinstance(node, Apply) and node.operator == "slice"


def _offset(node: Expression) -> int:
    assert _is_slice(node)
    return node.attributes[0]


def _run_of(nodes: Iterable[Expression]) -> bool:
    """Whether expressions are slices of one block."""
    wholes = [node.operands[0] if _is_slice(node) else None for node in nodes]
    return wholes[0] is not None and all(whole is wholes[0] for whole in wholes)


def _run(nodes: Sequence[Expression]) -> Expression | None:
    """Neighbouring slices of a block as one, or the whole block."""
    if not _run_of(nodes):
        return None
    slices = [node for node in nodes if _is_slice(node)]
    whole, first = slices[0].operands[0], _offset(slices[0])
    size = sum(node.attributes[1] for node in slices)
    at = first
    for node in slices:
        if _offset(node) != at:
            return None
        at += node.attributes[1]
    if size == whole.shape[-1]:
        return whole
    return Apply((*whole.shape[:-1], size), "slice", (whole,), (first, size), joined=_MOVE)


def _kind(node: Apply, types: Sequence[int | None]) -> Hashable:
    """Equal for operators that may run together: products of the same operand, or operators whose operands are equal in
    their `types` and shapes."""
    term = _term(node)
    if term is not None:
        return term.computed, term.constant.shape, term.turned
    operands = tuple((each.shape, is_constant(each)) for each in node.operands)
    return node.operator, node.attributes, operands, tuple(types), node.varying


def _columns(members: Sequence[Apply]) -> list[tuple[Expression, ...]]:
    """The first operands of all members, the second ones and so on."""
    return list(zip(*(node.operands for node in members), strict=True))


def _is_list(column: Sequence[Expression]) -> bool:
    """Whether a column has another computed operand for each member."""
    return len(set(column)) == len(column) and not any(map(is_constant, column))


def _together(tensors: Sequence[Expression], *, below: bool) -> Apply:
    """Constants side by side along the last axis, or below each other."""
    name = "below" if below else "concat"
    return Apply(OPERATORS[name].shape([each.shape for each in tensors], ()), name, tuple(tensors), joined=_MOVE)


def _wide(members: Sequence[Apply]) -> tuple[int, ...]:
    *outer, size = members[0].shape
    return (*outer, len(members) * size)
