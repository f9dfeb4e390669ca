"""Products and look-ups with a matrix in groups of few bits (`operators.building.grouped_calls`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tvm import relax

from deploykit.compiler.constants import constant
from deploykit.compiler.operators.building import grouped_calls
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.indices import checked_indices
from deploykit.compiler.operators.building.integers import inside
from deploykit.compiler.operators.quantized.groups import Grouped

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value


class GroupedWeight(NamedTuple):
    """A matrix (rows, depth) of a graph: the name of its format, and its constants. Calls with the same constants share
    what is stored."""

    format: str
    constants: tuple[relax.Constant, ...]
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: Grouped) -> GroupedWeight:
        rows, depth = matrix.codes.shape
        return cls(matrix.format.name, tuple(map(constant, matrix.arrays)), (rows, depth))


def grouped_product(ctx: Context, x: Value, weight: GroupedWeight) -> Value:
    """`x` (..., depth) times the transpose of the matrix, in float32."""
    shape = (*x.shape[:-1], weight.shape[0])
    left = ctx.tensor(ctx.cast(x, "float32"))
    type_ = relax.TensorType(list(shape), "float32")
    return ctx.bind(grouped_calls.matmul(weight.format, left, weight.constants, type_), "float32", shape)


def grouped_look_up(ctx: Context, weight: GroupedWeight, indices: Value) -> Value:
    """The rows of the matrix at `indices`, in float32; negative ones count from the end."""
    rows, depth = weight.shape
    checked = ctx.cast(checked_indices(ctx, indices, [rows]), "int64")
    ids = ctx.tensor(elementwise(ctx, "indices", lambda index: inside(index, rows), checked, dtype="int64"))
    shape = (*indices.shape, depth)
    type_ = relax.TensorType(list(shape), "float32")
    return ctx.bind(grouped_calls.rows(weight.format, ids, weight.constants, type_), "float32", shape)
