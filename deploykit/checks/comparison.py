"""How far one array is from another: absolute, relative and ULP error.

An element is within tolerance when `|actual - expected| <= atol + rtol * |expected|`, both are NaN, or both are the
same infinity. Strings must be equal. Relative and ULP errors are taken only over elements whose expected magnitude is
at least `atol`, because they mean nothing near zero. A ULP is the distance between neighbouring numbers of a dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deploykit.sessions.structure import Structure

STRING = "string"
ABSENT = "absent"
"""The `dtype` of a `Difference` of strings, and of an absent optional."""

SLACK = 12.0
"""An error of at most this many roundings (see `Difference`) is explained by rounding.

One rounding is the effect of changing each number in its last bit, seen in a few samples. Two correct implementations
may differ by more: a sum of hundreds of terms is rounded hundreds of times, in a different order by each. The largest
value measured was 9.6, with a model of a variance and a quantised model at 60 inputs."""

_WIDE = {2: np.uint16, 4: np.uint32, 8: np.uint64}


_STEP = 1.001
"""The tolerance of a dequantised output in steps: one, with room for the rounding of the product with the scale."""


@dataclass(frozen=True)
class Tolerance:
    rtol: float
    atol: float


def tolerance_of_steps(step: float) -> Tolerance:
    """How far two correct implementations of a quantised model may differ where neighbouring numbers of an output are
    `step` apart: floats that are added in another order may round to the next integer."""
    return Tolerance(0.0, _STEP * step)


def tolerance_of(dtype: np.dtype[Any]) -> Tolerance:
    """How far two correct implementations of a model may differ, for outputs of this dtype."""
    if _is_integer(dtype):
        return Tolerance(0.0, 0.0)
    if dtype.itemsize == 1:
        return Tolerance(0.25, 0.25)
    if dtype.itemsize == 2:
        return Tolerance(1e-2, 1e-2)
    return Tolerance(1e-3, 1e-5)


@dataclass(frozen=True)
class Difference:
    """The errors of one output.

    `worst` is the index of the element furthest out of tolerance, None if all are within. `problem` says why the arrays
    cannot be compared element by element, None if they can.

    `tolerances` is the largest error of an element divided by its tolerance (by 1 if that is 0), `mean_tolerances` the
    root mean square of these ratios. `roundings` is the error divided by the effect of rounding on the expected output
    (`checks.rounding`), None if that is not known. `step` is the distance of neighbouring numbers of a quantised
    output, None for other outputs.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    absolute: float = 0.0
    relative: float = 0.0
    ulp: int | None = None
    outside: int = 0
    worst: tuple[int, ...] | None = None
    problem: str | None = None
    tolerances: float = 0.0
    mean_tolerances: float = 0.0
    roundings: float | None = None
    step: float | None = None

    @property
    def steps(self) -> float | None:
        """The largest error in steps of a quantised output."""
        return None if self.step is None else self.absolute / self.step

    @property
    def within(self) -> bool:
        return self.problem is None and self.outside == 0

    @property
    def undecided(self) -> bool:
        """Whether the output is out of tolerance, but rounding may explain it, so that neither side need be wrong."""
        return not self.within and self.roundings is not None and self.roundings <= SLACK

    @property
    def wrong(self) -> bool:
        return not self.within and not self.undecided

    def in_roundings(self, spread: Difference) -> Difference:
        """This difference with `roundings` set: its error divided by `spread`, the effect of rounding on the output.

        The result is the largest of three ratios: of absolute errors, of `tolerances` and of `mean_tolerances`. With
        only one of them, a single element that moves far (a large one, or one near zero) would excuse errors in all
        others.
        """
        if not 0 < spread.absolute < math.inf:
            return self
        ratios = (
            self.absolute / spread.absolute,
            self.tolerances / spread.tolerances,
            self.mean_tolerances / spread.mean_tolerances,
        )
        return replace(self, roundings=max(ratios))


def compare_values(
    structure: Structure, actual: Any, expected: Any, tolerance: Tolerance | None = None
) -> Iterator[Difference]:
    """The errors of an output that may be a sequence or absent: one difference for each of its arrays."""
    if (actual is None) != (expected is None):
        found, wanted = ("absent" if value is None else "present" for value in (actual, expected))
        yield Difference(structure.name, "", (), problem=f"it is {found}, expected {wanted}")
    elif actual is None:
        yield Difference(structure.name, ABSENT, ())
    elif structure.kind == "sequence":
        if len(actual) != len(expected):
            problem = f"it has {len(actual)} items, expected {len(expected)}"
            yield Difference(structure.name, "", (len(expected),), problem=problem)
            return
        for item, ours, theirs in zip(structure.items, actual, expected, strict=True):
            yield from compare_values(item, ours, theirs, tolerance)
    elif structure.kind == "optional":
        yield from compare_values(structure.items[0], actual, expected, tolerance)
    else:
        yield compare(structure.name, np.asarray(actual), np.asarray(expected), tolerance)


def compare(name: str, actual: np.ndarray, expected: np.ndarray, tolerance: Tolerance | None = None) -> Difference:
    """The errors of `actual` against `expected`. The default tolerance is that of the expected dtype."""
    dtype, shape = str(expected.dtype), tuple(expected.shape)
    if expected.dtype.kind in "OUT":
        dtype, actual, expected = STRING, actual.astype(object), expected.astype(object)
    if actual.shape != expected.shape:
        return Difference(name, dtype, shape, problem=f"shape is {actual.shape}, expected {expected.shape}")
    if actual.dtype != expected.dtype:
        return Difference(name, dtype, shape, problem=f"dtype is {actual.dtype}, expected {expected.dtype}")
    if expected.size == 0:
        return Difference(name, dtype, shape)
    if dtype == STRING:
        others = np.argwhere(np.asarray(actual != expected))
        first = tuple(map(int, others[0])) if len(others) else None
        return Difference(name, dtype, shape, outside=len(others), worst=first)
    allowed = tolerance or tolerance_of(expected.dtype)
    error = _distance(actual, expected)
    e = expected.astype(np.float64)
    magnitude = np.where(np.isfinite(e), np.abs(e), 0.0)
    limit = allowed.atol + allowed.rtol * magnitude
    excess = error - limit
    with np.errstate(over="ignore"):
        tolerances = error / np.where(limit > 0, limit, 1.0)
        mean_tolerances = float(np.sqrt(np.mean(np.square(tolerances))))
    outside = int(np.count_nonzero(excess > 0))
    relevant = magnitude >= max(allowed.atol, np.finfo(np.float64).tiny)
    return Difference(
        name,
        dtype,
        shape,
        absolute=float(error.max()),
        relative=float((error[relevant] / magnitude[relevant]).max()) if relevant.any() else 0.0,
        ulp=_ulp(actual, expected, relevant & (error > 0)),
        outside=outside,
        worst=tuple(int(i) for i in np.unravel_index(int(excess.argmax()), shape)) if outside else None,
        tolerances=float(tolerances.max()),
        mean_tolerances=mean_tolerances,
    )


def _distance(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """`|actual - expected|` as float64: 0 if both are NaN or the same infinity, infinite if only one is NaN."""
    if _is_integer(expected.dtype):
        bits = np.dtype(np.uint64 if expected.dtype == np.uint64 else np.int64)
        a, e = actual.astype(bits), expected.astype(bits)
        return (np.maximum(a, e).view(np.uint64) - np.minimum(a, e).view(np.uint64)).astype(np.float64)
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(same, 0.0, np.abs(a - e))
    return np.where(np.isnan(error), np.inf, error)


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biu" or "int" in dtype.name


def _ulp(actual: np.ndarray, expected: np.ndarray, where: np.ndarray) -> int | None:
    """The largest distance, counted in representable numbers; None for integers."""
    if _is_integer(expected.dtype) or expected.dtype.itemsize not in _WIDE:
        return None
    finite = where & np.isfinite(actual.astype(np.float64)) & np.isfinite(expected.astype(np.float64))
    if not finite.any():
        return 0
    a, e = _ordered(actual[finite]), _ordered(expected[finite])
    return int((np.maximum(a, e) - np.minimum(a, e)).max())


def _ordered(array: np.ndarray) -> np.ndarray:
    """Floats as unsigned integers in the same order; neighbouring floats are one apart."""
    bits = array.view(_WIDE[array.dtype.itemsize])
    sign = bits.dtype.type(1) << bits.dtype.type(8 * bits.dtype.itemsize - 1)
    ordered: np.ndarray = np.where(bits & sign, ~bits + bits.dtype.type(1), bits | sign)
    return ordered
