"""Functions of tensors that models call, on NumPy arrays.

Tensors are float32. Beside these functions, models use `+ - * / @`, unary `-`, and indexing of weights by an integer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray


def sigmoid(x: Array) -> Array:
    """`1 / (1 + exp(-x))` of each element."""
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def tanh(x: Array) -> Array:
    """The hyperbolic tangent of each element."""
    return np.asarray(np.tanh(x))


def relu(x: Array) -> Array:
    """The greater of each element and 0."""
    return np.asarray(np.maximum(x, np.float32(0)))


def exp(x: Array) -> Array:
    """E to the power of each element."""
    return np.asarray(np.exp(x))


def sqrt(x: Array) -> Array:
    """The square root of each element."""
    return np.asarray(np.sqrt(x))


def maximum(x: Array, y: Array) -> Array:
    """The greater of two elements."""
    return np.asarray(np.maximum(x, y))


def minimum(x: Array, y: Array) -> Array:
    """The lesser of two elements."""
    return np.asarray(np.minimum(x, y))


def softmax(x: Array) -> Array:
    """exp(x), divided by its sum, along the last axis."""
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def sum(x: Array | Sequence[Array], axis: int | None = None) -> Array:  # noqa: A001
    """The sum of all elements of a tensor, or of those along an axis; of a list of tensors, which is not empty, the sum
    of its items: neighbours are added until one is left, so that few sums depend on each other."""
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x.sum(axis=axis, dtype=np.float32))
    sums = list(x)
    while len(sums) > 1:
        pairs = [left + right for left, right in zip(sums[::2], sums[1::2], strict=False)]
        sums = pairs + sums[2 * len(pairs) :]
    return sums[0]


def mean(x: Array, axis: int | None = None) -> Array:
    """The mean of all elements, or of those along an axis."""
    return np.asarray(x.mean(axis=axis, dtype=np.float32))


def concat(*parts: Array) -> Array:
    """The parts one after the other, along the last axis."""
    return np.concatenate(parts, axis=-1)


def stack(*parts: Array) -> Array:
    """The parts, of one shape, along a new first axis."""
    return np.stack(parts)


def split(x: Array, count: int) -> tuple[Array, ...]:
    """`count` parts of equal size, along the last axis."""
    return tuple(np.split(x, count, axis=-1))


def zeros(*shape: int) -> Array:
    """A tensor of zeros."""
    return np.zeros(shape, np.float32)


def random(state: int) -> tuple[float, int]:
    """A number in 0..1, without 1, and the state for the next one. A state is any int of 32 bits; equal states give
    equal numbers. (Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014; with 32
    bits.)"""
    state = (state + 0x9E3779B9) & 0xFFFFFFFF
    mixed = ((state ^ (state >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 15)) / 2**32, state - 2**32 if state >= 2**31 else state
