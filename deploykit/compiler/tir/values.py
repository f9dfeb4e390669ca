"""Constants, vectors, dtypes and indices of TIR expressions."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

from deploykit.compiler.tir.rewriting import Expr


def const(value: int) -> Expr:
    """An int64 constant."""
    return tirx.IntImm("int64", value)


def consecutive(first: Expr, lanes: int) -> Expr:
    """A vector of `lanes` consecutive integers, starting with `first`."""
    return tirx.Ramp(first, const(1), lanes)


def repeated(value: Expr, lanes: int) -> Expr:
    """A vector with `value` in each of its `lanes`."""
    return tirx.Broadcast(value, lanes)


def as_index(value: Expr | int) -> Expr:
    """`value` as an int64 expression."""
    if isinstance(value, int):
        return const(value)
    return value if dtype_of(value) == "int64" else value.astype("int64")


def dtype_of(value: Expr) -> str:
    """The dtype of an expression, or of the elements of a buffer, such as `float32`."""
    return str(value.ty.dtype)


def bits_of(dtype: str) -> int:
    """The bits of one element in memory; 8 for a bool."""
    digits = "".join(character for character in dtype if character.isdigit())
    return int(digits) if digits else 8


def static(value: Expr | int) -> int | None:
    """The value of a constant; None for other expressions."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, tirx.IntImm) else None


def at_place(indices: Sequence[Expr], place: Sequence[ir.Var]) -> bool:
    """Whether indices are exactly the variables `place`, in their order."""
    return len(indices) == len(place) and all(i.same_as(v) for i, v in zip(indices, place, strict=True))
