"""The prelude: kernels that compute index arrays from the lengths of a ragged batch, once a run, for all layers.

    total, longest    the sum of the lengths, which must be the number of tokens, and the greatest of them
    offsets[b]        the first token of instance b; offsets[batch] is the number of tokens
    rows[t]           the instance of token t
    positions[t]      the position of token t in its instance
    squares[b]        the sum of the squared lengths of the instances before b; squares[batch] is that of all, which
                      the run reads as a data dim
    order[i]          the instances, the longest first

Lengths are checked before anything is written: each is in its bounds, and their sum is the number of tokens. An array
is computed only if a kernel reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm import ir, relax, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import DataDim
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.index_checks import check
from deploykit.compiler.ragged.conversion.blocks import new_kernel
from deploykit.compiler.ragged.totals import LIMIT
from deploykit.compiler.tir.rewriting import Expr

DTYPE = "int64"

LONGEST_SQUARED = 1 << 24
"""The square of this length is `LIMIT`, more than any tensor has elements, so longer ones need not be told apart."""

Shape = tuple[IntExpr, ...]


@dataclass(frozen=True)
class RaggedBatch:
    """A ragged batch. The input `name` holds `batch` lengths; `tokens` is their sum, `longest` the dim that is bound to
    the greatest, `squares` the one that is bound to the sum of the squared lengths, `maximum` the greatest length that
    is allowed (None: any)."""

    name: str
    batch: ir.Var
    tokens: ir.Var
    longest: ir.Var
    squares: ir.Var
    maximum: int | None

    @property
    def most(self) -> Expr:
        """The most that a length can be."""
        return self.tokens if self.maximum is None else tirx.min(self.tokens, tirx.const(self.maximum, DTYPE))


class Prelude:
    """Emits the prelude at the start of a function with `builder`. `lengths` is an int64 tensor. `data_dims` are the
    dims that the run reads from what the prelude computes."""

    def __init__(self, builder: relax.BlockBuilder, ragged: RaggedBatch, lengths: relax.Var) -> None:
        self.builder, self.ragged = builder, ragged
        self.data_dims: list[DataDim] = []
        bounds = [(tirx.const(0, DTYPE), ragged.most)]
        self.lengths = builder.emit(check(lengths, bounds, f"the lengths '{ragged.name}'", required=True), "lengths")
        total = self.kernel("prelude_total", self.lengths, shape=(1,), body=self.total)
        exact = [(ragged.tokens, ragged.tokens)]
        self.total_checked = builder.emit(check(total, exact, f"the sum of '{ragged.name}'", required=True), "total")
        longest = self.kernel("prelude_longest", self.lengths, shape=(1,), body=self.greatest)
        self.read(ragged.longest, longest, ragged.most)

    def read(self, dim: ir.Var, value: relax.Var, most: Expr) -> None:
        """Bind a dim to the element of `value`, which is at most `most`."""
        shape = self.builder.emit(relax.op.tensor_to_shape(value), dim.name)
        self.builder.match_cast(shape, relax.ShapeType([dim]))
        self.data_dims.append(DataDim(dim, 0, most))

    @cached_property
    def offsets(self) -> relax.Var:
        return self.kernel(
            "prelude_offsets", self.lengths, self.total_checked, shape=(self.ragged.batch + 1,), body=self.sums
        )

    @cached_property
    def rows(self) -> relax.Var:
        return self.kernel("prelude_rows", self.offsets, shape=(self.ragged.tokens,), body=self.each_row)

    @cached_property
    def positions(self) -> relax.Var:
        return self.kernel("prelude_positions", self.offsets, shape=(self.ragged.tokens,), body=self.each_position)

    @cached_property
    def order(self) -> relax.Var:
        shapes = [(self.ragged.longest + 1,), (self.ragged.batch,)]
        both = self.kernels("prelude_order", self.offsets, shapes=shapes, body=self.longest_first)
        return self.builder.emit(relax.TupleGetItem(both, 1), "order")

    @cached_property
    def squares(self) -> relax.Var:
        ragged = self.ragged
        both = self.kernels("prelude_squares", self.offsets, shapes=[(ragged.batch + 1,), (1,)], body=self.squared)
        array, total = (self.builder.emit(relax.TupleGetItem(both, n), f"squares_{n}") for n in range(2))
        self.read(ragged.squares, total, ragged.tokens * ragged.most)
        return array

    def kernel(self, name: str, *inputs: relax.Var, shape: Shape, body: Callable[..., None]) -> relax.Var:
        """Emit a kernel of loops in order, which computes one array of this shape."""
        return self.kernels(name, *inputs, shapes=[shape], body=body)

    def kernels(self, name: str, *inputs: relax.Var, shapes: Sequence[Shape], body: Callable[..., None]) -> relax.Var:
        """The same for several arrays, a tuple."""
        return self.builder.emit(call_loops(self.builder, name, inputs, shapes, body), name)

    def total(self, code: Code, lengths: Array, total: Array) -> None:
        """The sum, or any number above the tokens if it is greater, so that it cannot overflow."""
        total[0] = 0
        with code.loop("b", self.ragged.batch) as b:
            total[0] = tirx.min(total[0] + lengths[b], self.ragged.tokens + 1)

    def greatest(self, code: Code, lengths: Array, longest: Array) -> None:
        longest[0] = 0
        with code.loop("b", self.ragged.batch) as b:
            longest[0] = tirx.max(longest[0], lengths[b])

    def sums(self, code: Code, lengths: Array, total: Array, offsets: Array) -> None:
        offsets[0] = 0
        with code.loop("b", self.ragged.batch) as b:
            offsets[b + 1] = offsets[b] + lengths[b]
        offsets[self.ragged.batch] = total[0]

    def squared(self, code: Code, offsets: Array, squares: Array, total: Array) -> None:
        """The sums of squares. None is above `LIMIT`, so that none can overflow."""
        total[0] = 0
        with code.loop("b", self.ragged.batch) as b:
            length = code.cell("length", tirx.min(offsets[b + 1] - offsets[b], tirx.const(LONGEST_SQUARED, DTYPE)))
            squares[b] = total[0]
            total[0] = tirx.min(total[0] + length.value * length.value, tirx.const(LIMIT, DTYPE))
        squares[self.ragged.batch] = total[0]

    def each_row(self, code: Code, offsets: Array, rows: Array) -> None:
        with code.loop("b", self.ragged.batch) as b, code.loop("i", offsets[b + 1] - offsets[b]) as i:
            rows[offsets[b] + i] = b

    def each_position(self, code: Code, offsets: Array, positions: Array) -> None:
        with code.loop("b", self.ragged.batch) as b, code.loop("i", offsets[b + 1] - offsets[b]) as i:
            positions[offsets[b] + i] = i

    def longest_first(self, code: Code, offsets: Array, places: Array, order: Array) -> None:
        """Sort by counting: `places` holds, for each length, where the next instance of that length goes."""
        ragged = self.ragged

        def rank(b: Expr) -> Expr:
            return ragged.longest - (offsets[b + 1] - offsets[b])

        with code.loop("n", ragged.longest + 1) as n:
            places[n] = 0
        with code.loop("b", ragged.batch) as b:
            places[rank(b)] = places[rank(b)] + 1
        before = code.cell("before", 0)
        with code.loop("n", ragged.longest + 1) as n:
            count = code.cell("count", places[n])
            places[n] = before.value
            before.value = before.value + count.value
        with code.loop("b", ragged.batch) as b:
            order[places[rank(b)]] = b
            places[rank(b)] = places[rank(b)] + 1


def call_loops(
    builder: relax.BlockBuilder,
    name: str,
    inputs: Sequence[relax.Var],
    shapes: Sequence[Shape],
    body: Callable[..., None],
) -> relax.Call:
    """A call of a kernel of loops in order, which computes arrays of these shapes from others."""
    sources = [te.placeholder(list(i.ty.shape.values), DTYPE, name=f"x{n}") for n, i in enumerate(inputs)]
    results = imperative(name, sources, [(shape, DTYPE) for shape in shapes], body)
    func = te.create_prim_func([*sources, *results], "int64")
    buffers = list(func.params)
    kernel, scalars = new_kernel(buffers[: len(sources)], buffers[len(sources) :], func.body)
    gvar = builder.add_func(kernel, name)
    types = [relax.TensorType(list(result.shape), DTYPE) for result in results]
    return relax.call_tir(gvar, relax.Tuple([*inputs, *scalars]), types if len(types) > 1 else types[0])
