"""Decides whether an output is right. An error is the largest difference, divided by the largest expected magnitude.

An output is right if it is within `TOLERANCE` of ONNX Runtime, or of PyTorch in float64. It is also right if its error
against PyTorch is less than `SLACK` times that of ONNX Runtime: then ONNX Runtime is inaccurate, or the model amplifies
rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOLERANCE = 1e-4
SLACK = 4.0


@dataclass(frozen=True)
class Verdict:
    """`error` is the error against the reference `judge`, which decided. `fault` says what is wrong; `None` if
    right."""

    output: str
    error: float
    judge: str
    torch: float | None = None
    fault: str | None = None


def verdict(
    name: str, actual: np.ndarray, runtime: np.ndarray | None, torch: np.ndarray | None, exact: np.ndarray | None
) -> Verdict:
    """Judge an output by the results of ONNX Runtime (`runtime`) and of PyTorch in float32 (`torch`) and float64
    (`exact`). `None`: there is no such result."""
    truth = exact if exact is not None else torch
    if runtime is None and truth is None:
        return Verdict(name, 0.0, "nothing", fault="there is nothing to compare with")
    to_torch = distance(actual, truth) if truth is not None else None
    if runtime is not None:
        error = distance(actual, runtime)
        if error <= TOLERANCE:
            return Verdict(name, error, "onnxruntime", to_torch)
    if truth is None or to_torch is None:
        return Verdict(name, error, "onnxruntime", fault=_fault(actual, runtime, error))
    allowed = TOLERANCE
    if runtime is not None:
        theirs = distance(runtime, truth)
        allowed = max(allowed, SLACK * theirs) if np.isfinite(theirs) and theirs < 0.01 else allowed
    if to_torch <= allowed:
        return Verdict(name, to_torch, "pytorch", to_torch)
    judge = "onnxruntime" if runtime is not None else "pytorch"
    expected = runtime if runtime is not None else truth
    return Verdict(
        name, distance(actual, expected), judge, to_torch, _fault(actual, expected, distance(actual, expected))
    )


def distance(actual: np.ndarray, expected: np.ndarray) -> float:
    """The error of `actual`; infinite if shapes differ, or if an element is finite in only one of the arrays."""
    if actual.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, np.abs(a - e))
    if not np.isfinite(difference).all():
        return float("inf")
    finite = np.abs(e[np.isfinite(e)])
    # Masks have the lowest number of a dtype; the other values give the scale.
    ordinary = finite[finite < 1e30]
    scale = float(ordinary.max(initial=0.0)) or 1.0
    return float(difference.max()) / max(scale, 1e-3)


def _fault(actual: np.ndarray, expected: np.ndarray, error: float) -> str:
    if actual.shape != expected.shape:
        return f"shape is {list(actual.shape)}, expected {list(expected.shape)}"
    return f"off by {error:.2g} of the scale"
