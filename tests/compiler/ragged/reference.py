"""What ragged operators mean, by loops over single elements in Python; it shares nothing with the compiler."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from deploykit.ragged.indices import Dim, Index, Length, Lengths, Size
from deploykit.ragged.operators import Operator
from deploykit.ragged.values import Apply, Literal, Load, OfIndex, Reduce, Tensor, Value

Env = Mapping[Dim, int]

FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "max": max,
    "min": min,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "where": lambda c, a, b: a if c else b,
    "exp": math.exp,
    "tanh": math.tanh,
}


class Reference:
    """The elements of all tensors of an operator. `sizes` are those of sizes, by name; `arrays` the inputs, flat."""

    def __init__(self, operator: Operator, sizes: Mapping[str, int], arrays: Mapping[str, np.ndarray]) -> None:
        self.sizes = sizes
        self.elements: dict[Tensor | Lengths, dict[tuple[int, ...], float]] = {}
        for lengths in operator.lengths:
            places = self.indices(lengths.dims)
            self.elements[lengths] = dict(zip(places, map(int, arrays[lengths.name]), strict=True))
        for tensor in operator.tensors:
            if tensor.value is None:
                flat = arrays[tensor.name].reshape(-1)
                stored = list(self.indices(tensor.dims, tensor.padding))
                assert len(stored) == len(flat)
                self.elements[tensor] = dict(zip(stored, flat.tolist(), strict=True))
            else:
                self.elements[tensor] = {
                    place: self.value(tensor.value, dict(zip(tensor.dims, place, strict=True)))
                    for place in self.indices(tensor.dims)
                }

    def flat(self, tensor: Tensor) -> np.ndarray:
        """The tensor as it is stored. Its padding is NaN."""
        places = self.indices(tensor.dims, tensor.padding)
        return np.array([self.elements[tensor].get(place, math.nan) for place in places], tensor.dtype)

    def indices(self, dims: tuple[Dim, ...], padding: Mapping[Dim, int] | None = None) -> Iterator[tuple[int, ...]]:
        """All indices, in the order in which elements are stored."""
        yield from (tuple(env[dim] for dim in dims) for env in self.environments(dims, {}, padding or {}))

    def environments(self, dims: tuple[Dim, ...], env: Env, padding: Mapping[Dim, int]) -> Iterator[dict[Dim, int]]:
        if not dims:
            yield dict(env)
            return
        multiple = padding.get(dims[0], 1)
        extent = -(-self.index(dims[0].extent, env) // multiple) * multiple
        for place in range(extent):
            yield from self.environments(dims[1:], {**env, dims[0]: place}, padding)

    def index(self, index: Index, env: Env) -> int:
        total = index.constant
        for atom, factor in index.terms:
            if isinstance(atom, Dim):
                found = env[atom]
            elif isinstance(atom, Size):
                found = self.sizes[atom.name]
            else:
                assert isinstance(atom, Length)
                found = int(self.elements[atom.lengths][tuple(self.index(i, env) for i in atom.indices)])
            total += factor * found
        return total

    def value(self, value: Value, env: Env) -> float:
        if isinstance(value, Literal):
            return value.number
        if isinstance(value, OfIndex):
            return self.index(value.index, env)
        if isinstance(value, Load):
            return self.load(value, env)
        if isinstance(value, Reduce):
            found = [self.value(value.value, inner) for inner in self.environments(value.dims, env, {})]
            if value.kind == "sum":
                return math.fsum(found) if value.dtype.startswith("float") else sum(found)
            low, high = -math.inf, math.inf
            if not value.dtype.startswith("float"):
                low, high = np.iinfo(value.dtype).min, np.iinfo(value.dtype).max
            pick, nothing = (max, low) if value.kind == "max" else (min, high)
            return pick(found, default=nothing)
        assert isinstance(value, Apply)
        operands = [self.value(operand, env) for operand in value.operands]
        if value.function == "cast":
            return np.dtype(value.of).type(operands[0]).item()
        return FUNCTIONS[value.function](*operands)

    def load(self, load: Load, env: Env) -> float:
        place = tuple(self.index(index, env) for index in load.indices)
        if load.outside is not None:
            dims: dict[Dim, int] = {}
            for dim, index in zip(load.tensor.dims, place, strict=True):
                if not 0 <= index < self.index(dim.extent, dims):
                    return load.outside
                dims[dim] = index
        return self.elements[load.tensor][place]
