"""Makes tensors over dims: inputs, and those that expressions define."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from deploykit.errors import UsageError
from deploykit.ragged.indices import Dim, Length, closure, require_closed
from deploykit.ragged.values import DTYPES, Apply, Load, Reduce, Tensor, Value, ValueLike, as_value, free_dims, walk


def input(  # noqa: A001 - `ragged.input`
    name: str, dims: tuple[Dim, ...], dtype: str = "float32", *, padding: Mapping[Dim, int] | None = None
) -> Tensor:
    """A tensor that the caller gives."""
    return _checked(Tensor(name, tuple(dims), dtype, None, dict(padding or {})))


def compute(name: str, dims: tuple[Dim, ...], value: ValueLike, *, padding: Mapping[Dim, int] | None = None) -> Tensor:
    """A tensor whose element at `dims` is `value`.

    The expression keeps one reduction that depends on all of `dims`. Every other one becomes a tensor of its own, over
    the dims that it depends on."""
    found = as_value(value, "float32")
    tensor = _checked(Tensor(name, tuple(dims), found.dtype, found, dict(padding or {})))
    own = next((part for part in _reductions(found) if closure(free_dims(part)) == set(dims)), None)
    _require_dims(tensor, found, own)
    return replace(tensor, value=_Lifting(tensor.name, _with_reduced(tuple(dims), own), own, {}).of(found))


def operands(tensor: Tensor) -> list[Tensor]:
    """The tensors that a tensor is computed from, each once."""
    parts = walk(tensor.value) if tensor.value is not None else ()
    return list(dict.fromkeys(part.tensor for part in parts if isinstance(part, Load)))


def producers(outputs: tuple[Tensor, ...]) -> Iterator[Tensor]:
    """All tensors that `outputs` are computed from, and `outputs`; each once, after its operands."""
    seen: set[Tensor] = set()

    def visit(tensor: Tensor) -> Iterator[Tensor]:
        if tensor in seen:
            return
        seen.add(tensor)
        for operand in operands(tensor):
            yield from visit(operand)
        yield tensor

    for output in outputs:
        yield from visit(output)


def _reductions(value: Value) -> Iterator[Reduce]:
    """The reductions of a value that are not within others."""
    if isinstance(value, Reduce):
        yield value
    elif isinstance(value, Apply):
        for operand in value.operands:
            yield from _reductions(operand)


def _with_reduced(dims: tuple[Dim, ...], own: Reduce | None) -> tuple[Dim, ...]:
    """The dims of a tensor and those that it reduces: a ragged one right after the dims that its extent depends on."""
    found = list(dims)
    for dim in own.dims if own is not None else ():
        needed = [found.index(outer) + 1 for outer in dim.extent.dims()]
        found.insert(max(needed, default=len(found)), dim)
    return tuple(found)


@dataclass(frozen=True)
class _Lifting:
    """Makes tensors of the reductions in the expression of the tensor `name`, except `own`. `dims` are in order."""

    name: str
    dims: tuple[Dim, ...]
    own: Reduce | None
    made: dict[Reduce, Tensor]

    def of(self, value: Value) -> Value:
        if isinstance(value, Apply):
            return replace(value, operands=tuple(map(self.of, value.operands)))
        if not isinstance(value, Reduce):
            return value
        if value == self.own:
            return replace(value, value=self.of(value.value))
        if value not in self.made:
            needed = closure(free_dims(value))
            hint = f"{self.name}_{value.kind}"
            name = hint if not self.made else f"{hint}_{len(self.made)}"
            self.made[value] = compute(name, tuple(dim for dim in self.dims if dim in needed), value)
        return Load(self.made[value], tuple(dim.index for dim in self.made[value].dims))


def _require_dims(tensor: Tensor, value: Value, own: Reduce | None) -> None:
    if own is not None:
        require_closed((*tensor.dims, *own.dims), f"'{tensor.name}'")
    free = closure(free_dims(value)) - set(tensor.dims)
    if free:
        names = ", ".join(sorted(dim.name for dim in free))
        raise UsageError(f"the expression of '{tensor.name}' depends on {names}, which are not among its dims")


def _checked(tensor: Tensor) -> Tensor:
    if tensor.dtype not in DTYPES:
        raise UsageError(f"'{tensor.name}' has the dtype '{tensor.dtype}'; there are {', '.join(DTYPES)}")
    require_closed(tensor.dims, f"'{tensor.name}'")
    for dim, multiple in tensor.padding.items():
        if dim not in tensor.dims or multiple < 1:
            raise UsageError(f"'{tensor.name}' cannot pad '{dim.name}' to a multiple of {multiple}")
        users = [other.name for other in tensor.dims if _indexed(other, dim)]
        falling = [other.name for other in tensor.dims if dict(other.extent.terms).get(dim, 0) < 0]
        if falling:
            raise UsageError(f"'{tensor.name}' cannot pad '{dim.name}': there is less of '{falling[0]}' in its padding")
        if users:
            raise UsageError(f"'{tensor.name}' cannot pad '{dim.name}': the lengths of '{users[0]}' end with it")
    return tensor


def _indexed(other: Dim, dim: Dim) -> bool:
    """Whether `dim` indexes lengths in the extent of `other`."""
    atoms = [atom for atom, _ in other.extent.terms if isinstance(atom, Length)]
    return any(dim in index.dims() for atom in atoms for index in atom.indices)
