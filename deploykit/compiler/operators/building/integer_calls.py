"""How exact products of integers are represented in Relax.

A product is a pure packed call, which passes treat as opaque, with static attributes in shapes:

    deploykit.integer_matmul(a, b)                                             -> int32 [..., M, N]
    deploykit.integer_conv(data, weight, zero, geometry)                       -> int32 [N, *spatial, O]

`a` and `data` are int8, uint8 or int16; `b` and `weight` are int8. The sums are of raw elements: zero points are not
subtracted. `data` has its channels last; `weight` is `[O, *kernel, C / groups]`; the one element of `zero` is the value
of padding. `geometry` is the strides, dilations, padding before and padding after, each with one entry per axis, then
the number of groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

MATMUL = "deploykit.integer_matmul"
CONV = "deploykit.integer_conv"


@dataclass(frozen=True)
class Geometry:
    """Strides, dilation and padding of a convolution, one entry per axis, and its groups."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    groups: int


def matmul(a: relax.Expr, b: relax.Expr, type_: relax.TensorType) -> relax.Call:
    """The exact product of matrices of integers."""
    return relax.call_pure_packed(MATMUL, a, b, ty_args=[type_])


def conv(
    data: relax.Expr, weight: relax.Expr, zero: relax.Expr, geometry: Geometry, type_: relax.TensorType
) -> relax.Call:
    """The exact convolution of integers."""
    lists = (geometry.strides, geometry.dilation, geometry.before, geometry.after, (geometry.groups,))
    shape = relax.ShapeExpr([n for numbers in lists for n in numbers])
    return relax.call_pure_packed(CONV, data, weight, zero, shape, ty_args=[type_])
