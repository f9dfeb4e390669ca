"""The interface of a ragged operator: dims, and inputs and outputs as users see them.

A tensor over `(batch, row, rest...)`, where only the extent of `row` is a length of the instance, has the shape
`[tokens, rest...]`: `tokens` is the sum of the lengths. A tensor with dense dims has their extents as its shape. The
shape of any other tensor is flat: its number of elements. A port says what its instances look like
(`Port.instance`) if each extent of an instance is a number, a size or a length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tvm import tirx

from deploykit.compiler.dims import free_vars, simplify
from deploykit.compiler.dims.conversion import polynomial
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import Port
from deploykit.compiler.operators.building.model import ModelBuilder
from deploykit.compiler.ragged.storage import Layout, Storage, Sums
from deploykit.compiler.ragged.totals import Totals
from deploykit.errors import UsageError
from deploykit.ragged.bounds import greatest
from deploykit.ragged.indices import Dim, Length, Lengths
from deploykit.ragged.operators import Operator
from deploykit.ragged.values import Reduce, Tensor, walk

TOKENS = "tokens"
"""The name of the dim that is the sum of lengths."""


@dataclass(frozen=True)
class Interface:
    """The ports of an operator's inputs: those of tensors, then those of lengths. `counted` are the dims that are the
    number of elements of an input, which a run compares with the lengths."""

    storage: Storage
    totals: Totals
    tensors: dict[Tensor, Port]
    lengths: dict[Lengths, Port]
    counted: dict[Tensor | Lengths, tirx.Var]


def interface(operator: Operator, builder: ModelBuilder) -> Interface:
    """The interface of an operator. Raises `UsageError` if no input gives a size that it uses."""
    sizes = dict.fromkeys(size for dim in dims_of(operator) for size in dim.extent.sizes())
    named = [size.name for size in sizes]
    for name in named:
        if named.count(name) > 1:
            raise UsageError(f"two sizes of '{operator.name}' have the name '{name}'")
    storage = Storage({size: builder.dim(size.name, size.minimum, size.maximum) for size in sizes})
    for lengths in operator.lengths:
        storage.buffer(lengths)
    totals = Totals(storage)
    names = {tensor.name for tensor in operator.inputs} | {each.name for each in operator.lengths}
    names |= {size.name for size in sizes}
    for array, (name, most) in _named(operator, storage).items():
        totals.known[array] = builder.dim(_unused(name, names), 0, most)
    counted: dict[Tensor | Lengths, tirx.Var] = {}

    def shape(each: Tensor | Lengths) -> tuple[IntExpr, ...]:
        """The shape of a port. A number of elements that is no dim yet becomes one, to be checked."""
        layout = layout_of(storage, each)
        if not totals.unknown(layout):
            found = shape_of(storage, totals, each) if isinstance(each, Tensor) else (totals.elements(layout),)
            if all(isinstance(extent, int | tirx.Var) for extent in found):
                return found
        padding = each.padding if isinstance(each, Tensor) else {}
        counted[each] = builder.dim(_unused(f"total_{each.name}", names), 0, most_elements(each.dims, padding))
        return (counted[each],)

    lengths_ports = {
        each: Port(each.name, "int64", shape(each), _instance(storage, each.dims)) for each in operator.lengths
    }
    tensors = {each: Port(each.name, each.dtype, shape(each), instance_of(storage, each)) for each in operator.inputs}
    given = {var for port in (*tensors.values(), *lengths_ports.values()) for n in port.shape for var in free_vars(n)}
    for size, var in storage.sizes.items():
        if var not in given:
            raise UsageError(f"the shape of no input of '{operator.name}' gives the size '{size.name}'")
    return Interface(storage, totals, tensors, lengths_ports, counted)


def layout_of(storage: Storage, each: Tensor | Lengths) -> Layout:
    """How a tensor or lengths are stored."""
    return storage.layout(each.dims, each.padding if isinstance(each, Tensor) else {})


def shape_of(storage: Storage, totals: Totals, tensor: Tensor) -> tuple[IntExpr, ...]:
    """The shape of a port, whose number of elements must be known."""
    if not _by_tokens(tensor) and (tensor.padding or _depends(tensor.dims)):
        return (totals.elements(storage.layout(tensor.dims, tensor.padding)),)
    groups = [tensor.dims[:2], *zip(tensor.dims[2:])] if _by_tokens(tensor) else [*zip(tensor.dims)]
    return tuple(totals.elements(storage.layout(dims)) for dims in groups)


def instance_of(storage: Storage, tensor: Tensor) -> tuple[IntExpr | str, ...] | None:
    """The shape of one instance; None if the tensor is dense or an extent has no name."""
    return None if tensor.padding else _instance(storage, tensor.dims)


def dims_of(operator: Operator) -> Iterator[Dim]:
    """All dims of the tensors and lengths of an operator, and those that it reduces."""
    for tensor in operator.tensors:
        yield from tensor.dims
        for part in walk(tensor.value) if tensor.value is not None else ():
            if isinstance(part, Reduce):
                yield from part.dims
    for lengths in operator.lengths:
        yield from lengths.dims


def most_elements(dims: tuple[Dim, ...], padding: Mapping[Dim, int] | None = None) -> int | None:
    """The most elements of a tensor in memory; None if there is no bound."""
    total = 1
    for dim in dims:
        most, multiple = greatest(dim.extent), (padding or {}).get(dim, 1)
        if most is None:
            return None
        total *= -(-most // multiple) * multiple
    return total


def _instance(storage: Storage, dims: tuple[Dim, ...]) -> tuple[IntExpr | str, ...] | None:
    extents: list[IntExpr | str] = []
    for dim in dims[1:]:
        lengths = _length_of(dim, dims[0])
        if lengths is None and list(dim.extent.dims()):
            return None
        extents.append(simplify(storage.expr(dim.extent)) if lengths is None else lengths.name)
    return tuple(extents) if any(isinstance(extent, str) for extent in extents) else None


def _by_tokens(tensor: Tensor) -> bool:
    """Whether the first extent of the shape is the sum of the lengths of all instances."""
    outer, rest = tensor.dims[:2], tensor.dims[2:]
    if len(outer) < 2 or tensor.padding or _depends((outer[0], *rest)):
        return False
    return _length_of(outer[1], outer[0]) is not None


def _depends(dims: tuple[Dim, ...]) -> bool:
    """Whether an extent depends on an index."""
    return any(True for dim in dims for _ in dim.extent.dims())


def _length_of(dim: Dim, outer: Dim) -> Lengths | None:
    """The lengths with the extent of `dim` for each index of `outer`."""
    if len(dim.extent.terms) != 1 or dim.extent.constant:
        return None
    ((atom, factor),) = dim.extent.terms
    single = isinstance(atom, Length) and factor == 1 and atom.indices == (outer.index,)
    return atom.lengths if isinstance(atom, Length) and single else None


def _named(operator: Operator, storage: Storage) -> dict[Sums, tuple[str, int | None]]:
    """The arrays whose last entry is the first extent of an input; its name, and its maximum."""
    heads = [(f"total_{lengths.name}", lengths.dims) for lengths in operator.lengths]
    heads += [("", tensor.dims[:2]) for tensor in operator.inputs if _by_tokens(tensor)]
    heads += [(f"total_{each.name}", each.dims) for each in operator.inputs if not each.padding]
    found: dict[Sums, tuple[str, tuple[Dim, ...]]] = {}
    for name, dims in heads:
        array = _last_of(storage, storage.layout(dims))
        if array is not None and array not in found:
            found[array] = name, dims
    several = sum(not name for name, _ in found.values()) > 1
    return {
        array: (name or (f"{TOKENS}_{dims[1].name}" if several else TOKENS), most_elements(dims))
        for array, (name, dims) in found.items()
    }


def _last_of(storage: Storage, layout: Layout) -> Sums | None:
    """The array whose last entry is the number of elements of `layout`."""
    if layout.total.divisor != 1:
        return None
    lasts = ((array, polynomial(array.last)) for array in storage.arrays)
    return next((array for array, last in lasts if last == layout.total.numerator), None)


def _unused(name: str, names: set[str]) -> str:
    while name in names:
        name = f"{name}_"
    names.add(name)
    return name
