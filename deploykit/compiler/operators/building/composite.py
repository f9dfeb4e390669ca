"""Values that consist of several tensors: strings, sequences, optionals.

`leaves` gives the tensors of a value in order. `with_leaves` gives a value of the same kind that consists of other
tensors. The functions of control flow, and the model itself, take and return leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import AnyValue, OptionalValue, SequenceValue, StackValue, Value
from deploykit.compiler.operators.strings.spans import STRING, string_of, text_of
from deploykit.sessions.structure import Structure

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context


def leaves(ctx: Context, value: AnyValue | None) -> list[Value]:
    """The tensors of a value."""
    match value:
        case Value(dtype="string"):
            text = text_of(ctx, value)
            return [text.spans, text.data]
        case Value():
            return [value]
        case SequenceValue(items):
            return [leaf for item in items for leaf in leaves(ctx, item)]
        case StackValue(stack=stack):
            return [stack]
        case OptionalValue(item, present):
            return [*([] if present is None else [present]), *leaves(ctx, item)]
    return []


def with_leaves(value: AnyValue | None, given: Iterator[Value]) -> AnyValue | None:
    """A value of the same kind as `value` that consists of the next tensors of `given`."""
    match value:
        case Value(dtype="string"):
            return string_of(next(given), next(given))
        case Value():
            return next(given)
        case SequenceValue(items, dtype):
            return SequenceValue(tuple(_value(with_leaves(item, given)) for item in items), dtype)
        case StackValue(joined=joined):
            return StackValue(next(given), joined)
        case OptionalValue(item, present):
            there = None if present is None else next(given)
            inner = with_leaves(item, given)
            assert not isinstance(inner, OptionalValue | StackValue)
            return OptionalValue(inner, there)
    return None


def _value(item: AnyValue | None) -> Value:
    assert isinstance(item, Value)
    return item


def structure_of(name: str, value: AnyValue | None) -> Structure:
    """How a value of the interface is represented by ports. Raises `Unsupported` for a value that ports cannot hold."""
    match value:
        case Value(dtype=dtype):
            return Structure(name, "string" if dtype == STRING else "tensor")
        case SequenceValue(items):
            return Structure(name, "sequence", tuple(structure_of(f"{name}_{i}", v) for i, v in enumerate(items)))
        case StackValue():
            raise Unsupported("it is a sequence whose length the run chooses; make it a tensor by ConcatFromSequence")
        case OptionalValue(item=None):
            return Structure(name, "nothing")
        case OptionalValue(item, present):
            inner = structure_of(name, item)
            return inner if present is None else Structure(name, "optional", (inner,))
    raise Unsupported("it is not computed")


def names_of(structure: Structure) -> Sequence[str]:
    """The names of the ports of a value."""
    match structure.kind:
        case "tensor":
            return [structure.name]
        case "string":
            return [structure.name, f"{structure.name}_utf8"]
    names = [name for item in structure.items for name in names_of(item)]
    return [f"{structure.name}_present", *names] if structure.kind == "optional" else names
