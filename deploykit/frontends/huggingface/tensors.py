"""`Tensor` and `Module`, in which families are written as formulas.

A `Tensor` is a value of the graph with Python's operators. A `Module` is a part of a model: its weights are those whose
names begin with its prefix, as PyTorch names them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from tvm import ir, tirx

from deploykit.basics.mapped import forget, set_aside
from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.operators import activations, arithmetic, normalization, reductions
from deploykit.compiler.operators.attention import attention
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.cumulative import cumulative_sum
from deploykit.compiler.operators.elementwise import like
from deploykit.compiler.operators.grouped import GroupedWeight, grouped_look_up, grouped_product
from deploykit.compiler.operators.indexing import gather
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import matmul
from deploykit.compiler.operators.rotary import rotary_embedding
from deploykit.compiler.operators.slicing import Piece, take
from deploykit.compiler.tir.extrema import maximum
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import Groups, no_groups

if TYPE_CHECKING:
    from pathlib import Path

    from deploykit.compiler.dims.expressions import IntExpr

Binary = Callable[[ir.Expr, ir.Expr], ir.Expr]
Unary = Callable[[ir.Expr], ir.Expr]


def _silu(x: ir.Expr) -> ir.Expr:
    return activations.swish(x, 1.0)


def _quick_gelu(x: ir.Expr) -> ir.Expr:
    return activations.swish(x, 1.702)


ACTIVATIONS: Mapping[str, Unary] = {
    "gelu": activations.gelu,
    "gelu_new": activations.gelu_by_tanh,
    "gelu_pytorch_tanh": activations.gelu_by_tanh,
    "gelu_fast": activations.gelu_by_tanh,
    "quick_gelu": _quick_gelu,
    "relu": activations.relu,
    "silu": _silu,
    "swish": _silu,
    "tanh": tirx.tanh,
}
"""The functions that configurations name (`hidden_act`)."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of a graph under construction."""

    ctx: Context
    value: Value

    @property
    def shape(self) -> tuple[IntExpr, ...]:
        return self.value.shape

    @property
    def rank(self) -> int:
        return self.value.rank

    def of(self, value: Value) -> Tensor:
        return Tensor(self.ctx, value)

    def number(self, number: float) -> Tensor:
        """A scalar of this tensor's dtype."""
        return self.of(self.ctx.constant(number, self.value.dtype))

    def elementwise(self, name: str, function: Callable[..., ir.Expr], *others: Tensor) -> Tensor:
        return self.of(elementwise(self.ctx, name, function, self.value, *(other.value for other in others)))

    def __add__(self, other: Tensor | float) -> Tensor:
        return self._binary("add", operator.add, other)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return self._binary("sub", operator.sub, other)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return self._binary("mul", operator.mul, other)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        return self._binary("div", arithmetic.divide, other)

    def maximum(self, other: Tensor | float) -> Tensor:
        return self._binary("max", maximum, other)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.of(matmul(self.ctx, self.value, other.value))

    def _binary(self, name: str, function: Binary, other: Tensor | float) -> Tensor:
        return self.elementwise(name, function, other if isinstance(other, Tensor) else self.number(other))

    def activation(self, name: str) -> Tensor:
        """The function of that name in configurations. Raises `UnsupportedModelError` if it is unknown."""
        if name not in ACTIVATIONS:
            raise UnsupportedModelError(f"the activation '{name}' is unknown; there are {', '.join(ACTIVATIONS)}")
        return self.elementwise(name, ACTIVATIONS[name])

    def cast(self, dtype: str) -> Tensor:
        return self.of(self.ctx.cast(self.value, dtype))

    def reshape(self, *shape: IntExpr) -> Tensor:
        return self.of(self.ctx.reshape(self.value, shape))

    def transpose(self, *order: int) -> Tensor:
        return self.of(transpose(self.ctx, self.value, order))

    def slice(self, axis: int, start: IntExpr, size: IntExpr) -> Tensor:
        """`size` elements along an axis, from `start` on."""
        pieces = [Piece(start, size) if i == axis else Piece(0, n) for i, n in enumerate(self.shape)]
        return self.of(take(self.ctx, self.value, pieces))

    def split(self, axis: int, *sizes: int) -> list[Tensor]:
        """Parts of these sizes along an axis, one after the other."""
        ends = np.cumsum(sizes)
        return [self.slice(axis, int(end) - size, size) for size, end in zip(sizes, ends, strict=True)]

    def at(self, axis: int, index: IntExpr) -> Tensor:
        """The elements at `index` of an axis, without this axis."""
        rest = [n for i, n in enumerate(self.shape) if i != axis]
        return self.slice(axis, index, 1).reshape(*rest)

    def sum(self, *axes: int, keepdims: bool = False) -> Tensor:
        return self.of(reductions.reduce(self.ctx, self.value, reductions.REDUCE_SUM, axes, keepdims=keepdims))

    def mean(self, *axes: int, keepdims: bool = False) -> Tensor:
        return self.of(reductions.reduce(self.ctx, self.value, reductions.REDUCE_MEAN, axes, keepdims=keepdims))

    def greatest(self, *axes: int) -> Tensor:
        """The greatest element along the axes."""
        return self.of(reductions.reduce(self.ctx, self.value, reductions.REDUCE_MAX, axes, keepdims=False))

    def joined(self, *others: Tensor, axis: int) -> Tensor:
        return self.of(concat(self.ctx, [self.value, *(other.value for other in others)], axis))

    def unit_length(self, epsilon: float = 1e-12) -> Tensor:
        """Divided by its Euclidean length along the last axis, which counts as at least `epsilon`."""
        squares = reductions.reduce(self.ctx, self.value, reductions.REDUCE_SUM_SQUARE, [self.rank - 1])
        return self / self.of(squares).root().maximum(epsilon)

    def root(self) -> Tensor:
        return self.elementwise("sqrt", tirx.sqrt)

    def counted(self, skipped: int) -> Tensor:
        """For ids (batch, length): how many up to this one are not `skipped`, plus `skipped`; just that for itself."""
        ones = self.elementwise("counted", lambda x: tirx.Cast("int64", x != like(x, skipped)))
        return self.of(cumulative_sum(self.ctx, ones.value, self.ctx.constant(1, "int64"))) * ones + skipped

    def where_true(self, x: Tensor, other: float) -> Tensor:
        """`x` where this tensor is not 0, else `other`."""
        return x.elementwise("where", lambda v, m: tirx.Select(m != like(m, 0), v, like(v, other)), self)

    def turned(self, cosines: Tensor, sines: Tensor, heads: int, *, interleaved: bool = False) -> Tensor:
        """The channels of (batch, length, heads * size) turned by the angles of their positions. `cosines` and `sines`
        are (1, length, pairs); of each head, the first two channels for each pair are turned."""
        return self.of(
            rotary_embedding(
                self.ctx,
                self.value,
                cosines.value,
                sines.value,
                interleaved=interleaved,
                turned=2 * int(cosines.shape[2]),
                heads=heads,
            )
        )

    def attend(
        self,
        keys: Tensor,
        values: Tensor,
        heads: int | tuple[int, int],
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        scale: float | None = None,
        window: tuple[int, int] = (-1, -1),
        softcap: float = 0.0,
    ) -> Tensor:
        """Attention of queries (batch, length, width) to keys and values, with so many heads, or with a number of heads
        for the queries and one for the keys. A boolean `mask` is true at keys that count, others are added to the
        scores; it broadcasts to (batch, heads, queries, keys). A `window` says how many keys in front of its own and
        behind it a query sees, with -1 for all."""
        pair = (heads, heads) if isinstance(heads, int) else heads
        y, *_ = attention(
            self.ctx,
            self.value,
            keys.value,
            values.value,
            mask=None if mask is None else mask.value,
            heads=pair,
            scale=scale,
            causal=causal,
            left=window[0],
            right=window[1],
            softcap=softcap,
        )
        return self.of(y)


OTHER_FLOATS = tuple(np.dtype(kind) for kind in (np.float16, np.float64, ml_dtypes.bfloat16))
"""Dtypes of weights that become float32: models compute in float32."""


@dataclass
class Weights:
    """The weights of a model. `groups` gives one in groups of few bits (`Folder`). `used` are the names of those that a
    family has taken."""

    path: Path
    arrays: Mapping[str, np.ndarray]
    groups: Groups = no_groups
    used: set[str] = field(default_factory=set)
    _values: dict[tuple[str, bool], Value] = field(default_factory=dict)
    _matrices: dict[str, GroupedWeight | None] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def take(self, ctx: Context, name: str, *, turned: bool = False) -> Value:
        """A weight as a constant; `turned`, its transpose, of which alone there is a copy then. Raises `UsageError` if
        there is none of that name, or if it is no floats."""
        if name not in self.arrays:
            raise UsageError(f"{self.path} has no weights '{name}': they do not belong to this configuration")
        self.used.add(name)
        if (name, turned) not in self._values:
            array = self.arrays[name]
            if array.dtype not in (np.dtype(np.float32), *OTHER_FLOATS):
                raise UsageError(
                    f"'{name}' in {self.path} has the dtype {array.dtype}, but models have weights of floats: take "
                    "those from before the quantisation, and use --quantize"
                )
            taken = array.T if turned else array
            self._values[name, turned] = ctx.constant(
                set_aside(taken, np.dtype(np.float32)) if array.dtype in OTHER_FLOATS else taken
            )
            if turned:
                forget(array)
        return self._values[name, turned]

    def grouped(self, name: str) -> GroupedWeight | None:
        """A matrix in groups of few bits; None if it is not. Each is read once."""
        if name not in self.arrays:
            return None
        if name not in self._matrices:
            found = self.groups(name)
            self._matrices[name] = None if found is None else GroupedWeight.of(found)
        if self._matrices[name] is not None:
            self.used.add(name)
        return self._matrices[name]


@dataclass(frozen=True)
class Module:
    """A part of a model, with the weights whose names begin with `prefix`."""

    ctx: Context
    weights: Weights
    prefix: str = ""

    def __getitem__(self, name: str) -> Module:
        """The part of that name."""
        return Module(self.ctx, self.weights, f"{self.prefix}{name}.")

    def layers(self, name: str, count: int) -> Iterator[Module]:
        """The parts `name.0`, `name.1`, and so on."""
        return (self[f"{name}.{index}"] for index in range(count))

    def under(self, *names: str) -> Module:
        """The first part that has weights, else this one: a model with a head holds its base as a part."""
        held = (n for n in names if any(w.startswith(f"{self.prefix}{n}.") for w in self.weights.arrays))
        name = next(held, None)
        return self if name is None else self[name]

    def has(self, name: str) -> bool:
        return f"{self.prefix}{name}" in self.weights

    def array(self, name: str, *shape: int) -> np.ndarray:
        """The weights of that name as an array, for what is computed here. See `weight`."""
        found = self.weight(name, *shape).value.array
        assert found is not None
        return found

    def weight(self, name: str, *shape: int) -> Tensor:
        """The weights of that name. Raises `UsageError` unless they have this shape, if one is given."""
        found = self.weights.take(self.ctx, f"{self.prefix}{name}")
        if shape and found.shape != shape:
            raise UsageError(
                f"'{self.prefix}{name}' in {self.weights.path} has the shape {list(found.shape)}, but the "
                f"configuration needs {list(shape)}"
            )
        return Tensor(self.ctx, found)

    def tied(self, name: str, source: str, *shape: int, tied: bool = True) -> Tensor:
        """The weights `source` if `name` is tied to them, else those of that name. Raises `UsageError` if they are
        tied and the file has others, or unless they have this shape, if one is given."""
        return self.weight(self.shared(name, source, tied=tied), *shape)

    def shared(self, name: str, source: str, *, tied: bool) -> str:
        """The name of the weights that `tied` gives."""
        own, shared = (f"{self.prefix}{part}" for part in (name, source))
        self.weights.used |= {own, shared}
        if not tied:
            return name
        arrays = self.weights.arrays
        if own in arrays and not (shared in arrays and np.array_equal(arrays[own], arrays[shared])):
            raise UsageError(
                f"the configuration ties '{own}' to '{shared}', but {self.weights.path} has other weights there: set "
                "'tie_word_embeddings' to false in it if they are meant"
            )
        return source

    def named(self, name: str) -> None:
        """Give the operators that follow the name of a part."""
        self.ctx.site = Site(name, f"{self.prefix}{name}")

    def linear(self, name: str, x: Tensor, width: int | None = None, *, bias: bool = True) -> Tensor:
        """`x @ W.T + b` with (outputs, inputs) weights. Raises `UsageError` if their shape does not fit `x` and the
        `width` of the result."""
        self.named(name)
        y = self.product(f"{name}.weight", x, width)
        return y + self.weight(f"{name}.bias", int(y.shape[-1])) if bias else y

    def product(self, name: str, x: Tensor, width: int | None = None) -> Tensor:
        """`x @ W.T`, as `linear`."""
        full = f"{self.prefix}{name}"
        grouped = self.weights.grouped(full)
        if grouped is not None:
            self._require_shape(full, grouped.shape, width, x.shape[-1])
            return x.of(grouped_product(self.ctx, x.value, grouped))
        turned = self.weights.take(self.ctx, full, turned=True)
        self._require_shape(full, turned.shape[::-1], width, x.shape[-1])
        return x @ Tensor(self.ctx, turned)

    def _require_shape(self, name: str, shape: Sequence[IntExpr], rows: int | None, columns: IntExpr) -> None:
        """Raises `UsageError` unless a weight is a matrix of this shape; None stands for any number of rows."""
        if len(shape) != 2 or shape[1] != columns or rows not in (None, shape[0]):
            wanted = [shape[0] if rows is None and len(shape) == 2 else rows, to_text(columns)]
            raise UsageError(
                f"'{name}' in {self.weights.path} has the shape {list(shape)}, but the configuration needs "
                f"[{', '.join(map(str, wanted))}]"
            )

    def layer_norm(self, name: str, x: Tensor, epsilon: float, *, bias: bool = True) -> Tensor:
        width = int(x.shape[-1])
        scale = self.weight(f"{name}.weight", width)
        shift = self.weight(f"{name}.bias", width) if bias else None
        self.named(name)
        return x.of(
            normalization.layer_normalization(
                self.ctx,
                x.value,
                scale.value,
                None if shift is None else shift.value,
                axes=[x.rank - 1],
                epsilon=epsilon,
                statistics_dtype="float32",
            )[0]
        )

    def rms_norm(self, name: str, x: Tensor, epsilon: float, offset: float = 0.0) -> Tensor:
        """Root mean square normalisation; `offset` is added to the scale."""
        scale = self.weight(f"{name}.weight", int(x.shape[-1]))
        scale = scale + offset if offset else scale
        self.named(name)
        normed = normalization.rms_normalization(self.ctx, x.value, scale.value, axes=[x.rank - 1], epsilon=epsilon)
        return x.of(normed)

    def embedding(self, name: str, ids: Tensor, rows: int | None = None) -> Tensor:
        """The rows of a table at `ids`. A run with an id outside of the table is refused. Raises `UsageError` unless
        the table has this many rows, if a number is given."""
        full = f"{self.prefix}{name}.weight"
        self.named(name)
        table = self.weights.grouped(full) or self.weights.take(self.ctx, full)
        if rows not in (None, table.shape[0]):
            raise UsageError(
                f"'{full}' in {self.weights.path} has {table.shape[0]} rows, but the configuration needs {rows}"
            )
        if isinstance(table, GroupedWeight):
            return ids.of(grouped_look_up(self.ctx, table, ids.value))
        return ids.of(gather(self.ctx, table, ids.value, 0))

    def positions(self, name: str, x: Tensor, rows: int, first: int = 0) -> Tensor:
        """The rows of a table of positions for `x` (batch, length, width), from the row `first` on."""
        return self.weight(f"{name}.weight", rows, int(x.shape[2])).slice(0, first, x.shape[1])

    def tensor(self, array: object, dtype: str | None = None) -> Tensor:
        """A constant."""
        return Tensor(self.ctx, self.ctx.constant(array, dtype))


def as_mask(mask: Tensor) -> Tensor:
    """A mask of tokens (batch, length), 1 where a token counts, as a boolean mask of keys (batch, 1, 1, length)."""
    batch, length = mask.shape
    valid = elementwise(mask.ctx, "mask", lambda x: x != like(x, 0), mask.value, dtype="bool")
    return mask.of(valid).reshape(batch, 1, 1, length)


def concatenated(parts: Sequence[Tensor], axis: int) -> Tensor:
    return parts[0].joined(*parts[1:], axis=axis)
