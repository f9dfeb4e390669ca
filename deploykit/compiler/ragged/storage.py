"""Where the elements of a ragged tensor are: offsets from the dependences between dims, with sums of lengths.

The elements of a tensor lie in the order of its indices, without gaps. So the offset of an element is the sum, over the
dims, of the elements that come before it along that dim: those with the same indices of outer dims and a smaller index
of this one. With `V(j)` for the number of elements within index `j` of a dim, this is the sum of `V(j)` over `j < i`:

* `V` does not depend on `j`: `i * V`, as for any dense tensor;
* `V` is a polynomial in `j`, as in a triangle: a polynomial in `i`;
* `V` depends on lengths that `j` indexes, or on `j` rounded up: a difference of two entries of an *array* of sums. Such
  an array has an entry for each index of the dims on which `V` depends (their *domain*, a ragged tensor again), and one
  more.

Every offset thus takes a constant number of loads, no search, and arrays with an entry per instance instead of one per
row. For dims `[batch, heads, row(b), col(b)]` the only array is the sums of `length[b]**2`:

    offset = heads * A[b] + (head * length[b] + row) * length[b] + col

Equal sums over the same dims are the same array, so all tensors of a model share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, lcm

from tvm import ir, tirx

from deploykit.compiler.dims.conversion import as_expr, expression, polynomial
from deploykit.compiler.dims.polynomial import ONE, ZERO, Atom, Monomial, Polynomial, round_up, without
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, substitute
from deploykit.errors import UsageError
from deploykit.ragged.indices import Dim, Index, Length, Lengths, Size, closure

POWER_SUMS = (((0, 1), 1), ((0, -1, 1), 2), ((0, 1, -3, 2), 6), ((0, 0, 1, -2, 1), 4))
"""The sum of `j**p` over `j < n`, for each `p`: coefficients of the powers of `n`, and a divisor."""


@dataclass(frozen=True)
class Quotient:
    """`numerator / divisor`, which is a whole number."""

    numerator: Polynomial
    divisor: int = 1

    def __add__(self, other: Quotient) -> Quotient:
        common = lcm(self.divisor, other.divisor)
        a, b = (q.numerator.scaled(common // q.divisor) for q in (self, other))
        shared = gcd(common, *(a + b).terms.values())
        return Quotient(Polynomial({m: x // shared for m, x in (a + b).terms.items()}), common // shared)

    def times(self, factor: Polynomial) -> Quotient:
        return Quotient(self.numerator * factor, self.divisor)

    def expr(self) -> Expr:
        value = as_expr(expression(self.numerator))
        return value if self.divisor == 1 else tirx.floordiv(value, tirx.IntImm("int64", self.divisor))


@dataclass(frozen=True, eq=False)
class Sums:
    """An array of sums: entry `f` is the sum of `element` over the first `f` indices of `domain`."""

    name: str
    domain: Layout
    element: Polynomial
    buffer: Buffer

    @property
    def last(self) -> Expr:
        """The entry that is the sum of all."""
        return tirx.BufferLoad(self.buffer, [self.domain.total.expr()])


@dataclass(frozen=True, eq=False)
class Owners:
    """An array of the fused loop over the elements of `layout`: entry `f` is the place, among the indices of all dims
    but the last, of the one that iteration `f` belongs to."""

    name: str
    outer: Layout
    layout: Layout
    buffer: Buffer


@dataclass(frozen=True, eq=False)
class Order:
    """An array of the indices of `dim`, those with the largest `weight` first."""

    name: str
    dim: Dim
    weight: Dim
    buffer: Buffer


@dataclass(frozen=True, eq=False)
class Layout:
    """How a tensor over `dims` is stored. `extents` are those in memory, with padding, over `variables`, the indices of
    the dims. `partial[p]` is the number of elements before an index along dim `p`."""

    dims: tuple[Dim, ...]
    variables: tuple[tirx.Var, ...]
    extents: tuple[Polynomial, ...]
    partial: tuple[Quotient, ...]
    total: Quotient

    def offset(self, indices: Sequence[Expr]) -> Expr:
        """The place of an element, in normal form: where indices come from a loop over all elements of a ragged tensor,
        their sums cancel and the index of this loop is left."""
        return self.within(0, indices)

    def within(self, position: int, indices: Sequence[Expr]) -> Expr:
        """The place of an element among those with the same indices of the dims before `position`. `indices` are those
        of the other dims."""
        values = dict(zip(self.variables[position:], indices, strict=True))
        whole = ZERO
        rest: list[Expr] = []
        for part in self.partial[position:]:
            if part.divisor == 1:
                whole += polynomial(substitute(as_expr(expression(part.numerator)), values))
            else:
                rest.append(substitute(part.expr(), values))
        total = as_expr(expression(whole))
        for value in rest:
            total = total + value
        return total


@dataclass
class Storage:
    """The layouts of a model's tensors and the arrays that they share. `sizes` are the variables of sizes."""

    sizes: Mapping[Size, tirx.Var]
    lengths: dict[Lengths, Buffer] = field(default_factory=dict)
    arrays: list[Sums] = field(default_factory=list)
    maps: list[Owners | Order] = field(default_factory=list)
    _variables: dict[Dim, tirx.Var] = field(default_factory=dict)
    _layouts: dict[tuple[tuple[Dim, int], ...], Layout] = field(default_factory=dict)
    _found: dict[tuple[Layout, str], Sums] = field(default_factory=dict)

    def variable(self, dim: Dim) -> tirx.Var:
        """The variable that stands for the index of a dim."""
        return self._variables.setdefault(dim, tirx.Var(dim.name, "int64"))

    def polynomial(self, index: Index) -> Polynomial:
        """An index over the variables of dims and sizes, and loads of lengths."""
        total = Polynomial.constant(index.constant)
        for atom, factor in index.terms:
            total += self._atom(atom).scaled(factor)
        return total

    def expr(self, index: Index) -> Expr:
        return as_expr(expression(self.polynomial(index)))

    def _atom(self, atom: Dim | Size | Length) -> Polynomial:
        if isinstance(atom, Dim):
            return Polynomial.variable(self.variable(atom))
        if isinstance(atom, Size):
            return Polynomial.variable(self.sizes[atom])
        place = self.layout(atom.lengths.dims).offset([self.expr(index) for index in atom.indices])
        return polynomial(tirx.BufferLoad(self.buffer(atom.lengths), [as_expr(expression(polynomial(place)))]))

    def buffer(self, lengths: Lengths) -> Buffer:
        """The buffer that stands for lengths in expressions."""
        if lengths not in self.lengths:
            self.lengths[lengths] = integers(lengths.name)
        return self.lengths[lengths]

    def layout(self, dims: tuple[Dim, ...], padding: Mapping[Dim, int] | None = None) -> Layout:
        """The layout of a tensor over `dims`, with some extents rounded up to multiples."""
        padded = padding or {}
        key = tuple((dim, padded.get(dim, 1)) for dim in dims)
        if key not in self._layouts:
            self._layouts[key] = self._new_layout(key)
        return self._layouts[key]

    def owners(self, dims: tuple[Dim, ...], padding: Mapping[Dim, int]) -> Owners:
        """The array of the fused loop over `dims`."""
        layout = self.layout(dims, padding)
        for found in self.maps:
            if isinstance(found, Owners) and found.layout is layout:
                return found
        name = f"owners_{len(self.maps)}"
        made = Owners(name, self.layout(dims[:-1], padding), layout, integers(name))
        self.maps.append(made)
        return made

    def order(self, dim: Dim, weight: Dim) -> Order:
        """The array of the indices of `dim`, those with the largest extent of `weight` first."""
        for found in self.maps:
            if isinstance(found, Order) and (found.dim, found.weight) == (dim, weight):
                return found
        name = f"order_{len(self.maps)}"
        made = Order(name, dim, weight, integers(name))
        self.maps.append(made)
        return made

    def buffers(self) -> list[Buffer]:
        """The buffers of lengths and arrays, in the order in which the prelude makes them."""
        return [*self.lengths.values(), *(made.buffer for made in (*self.arrays, *self.maps))]

    def _new_layout(self, key: tuple[tuple[Dim, int], ...]) -> Layout:
        dims = tuple(dim for dim, _ in key)
        extents = [round_up(self.polynomial(d.extent), k) if k > 1 else self.polynomial(d.extent) for d, k in key]
        within = Quotient(ONE)
        partial: list[Quotient] = []
        for position in reversed(range(len(dims))):
            index = Polynomial.variable(self.variable(dims[position]))
            partial.append(self._sum(within, key[: position + 1], index))
            within = self._sum(within, key[: position + 1], extents[position])
        variables = tuple(map(self.variable, dims))
        return Layout(dims, variables, tuple(extents), tuple(reversed(partial)), within)

    def _sum(self, value: Quotient, key: tuple[tuple[Dim, int], ...], end: Polynomial) -> Quotient:
        """The sum of `value` over the last dim of `key`, from 0 to `end`, for given indices of the other dims."""
        var = self.variable(key[-1][0])
        terms = value.numerator.terms
        if all(atom.var is not None or not _depends(atom, var) for monomial in terms for atom in monomial):
            total = Quotient(ZERO)
            for monomial, factor in terms.items():
                outer = tuple(atom for atom in monomial if not _depends(atom, var))
                total += _power_sum(len(monomial) - len(outer), end).times(Polynomial({outer: factor}))
        else:
            common, element = _without_common(value.numerator, var)
            total = Quotient(self._looked_up(element, key, end) * common)
        return Quotient(total.numerator, total.divisor * value.divisor) + Quotient(ZERO)

    def _looked_up(self, element: Polynomial, key: tuple[tuple[Dim, int], ...], end: Polynomial) -> Polynomial:
        """The sum of `element`, by an array."""
        dims = [dim for dim, _ in key]
        used = {dim for dim in dims if any(_depends(atom, self.variable(dim)) for atom in element.atoms)}
        needed = closure({dims[-1], *used})
        domain_key = tuple((dim, k) for dim, k in key if dim in needed)
        domain = self.layout(tuple(dim for dim, _ in domain_key), dict(domain_key))
        found = self._found.get((domain, element.key))
        if found is None:
            name = f"sums_{len(self.arrays)}"
            found = self._found[domain, element.key] = Sums(name, domain, element, integers(name))
            self.arrays.append(found)
        outer = list(domain.variables[:-1])
        first, last = (domain.offset([*outer, as_expr(expression(i))]) for i in (ZERO, end))
        entries = [polynomial(tirx.BufferLoad(found.buffer, [_normal(place)])) for place in (first, last)]
        return entries[1] - entries[0] if outer else entries[1]


def _normal(index: Expr) -> Expr:
    return as_expr(expression(polynomial(index)))


def _depends(atom: Atom, var: tirx.Var) -> bool:
    """Whether an atom mentions `var`, also in the index of a load."""
    return any(var.same_as(other) for other in collect(as_expr(expression(Polynomial({(atom,): 1}))), ir.Var))


def _without_common(p: Polynomial, var: tirx.Var) -> tuple[Polynomial, Polynomial]:
    """The number and the atoms without `var` that all terms have as factors, and what is left of `p`."""
    common = [atom for atom in next(iter(p.terms)) if not _depends(atom, var)]
    for monomial in p.terms:
        rest = list(monomial)
        common = [atom for atom in common if atom in rest and not rest.remove(atom)]  # type: ignore[func-returns-value]
    content = gcd(*p.terms.values())
    terms: dict[Monomial, int] = {}
    for monomial, factor in p.terms.items():
        for atom in common:
            monomial = without(monomial, atom)  # noqa: PLW2901
        terms[monomial] = factor // content
    return Polynomial({tuple(common): content}), Polynomial(terms)


def _power_sum(power: int, end: Polynomial) -> Quotient:
    if power >= len(POWER_SUMS):
        raise UsageError(
            f"the extents of a ragged tensor depend on an outer dim in more than {len(POWER_SUMS) - 1} ways"
        )
    coefficients, divisor = POWER_SUMS[power]
    total, factor = ZERO, ONE
    for coefficient in coefficients:
        total += factor.scaled(coefficient)
        factor = factor * end
    return Quotient(total, divisor)


def integers(name: str) -> Buffer:
    """A buffer that stands for an array of integers in expressions."""
    return tirx.decl_buffer((tirx.Var(f"{name}_size", "int64"),), "int64", name, layout=None)
