"""Transposed and converted tensors: those of constants, and the kernels for others. See `Context.transpose`, `cast`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import numpy_helper
from tvm import ir, te

from deploykit.basics.mapped import forget, set_aside
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import logical_name, numpy_dtype
from deploykit.compiler.operators.anchors.attention import ROUNDED
from deploykit.compiler.operators.building.conversion import convert, cut_off, load
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.value import Value


def transposed(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """A copy of `array` with its axes in this order. The memory of a mapped array is given back."""
    try:
        return set_aside(array.transpose(order))
    finally:
        forget(array)


def transposing(shape: Sequence[IntExpr], order: Sequence[int]) -> Callable[[te.Tensor], te.Tensor]:
    """A kernel for a tensor whose transposed one has `shape`."""

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            source: list[ir.Expr] = [index[0]] * len(order)
            for position, axis in enumerate(order):
                source[axis] = index[position]
            return t(*source)

        return compute(shape, element, name="transpose")

    return build


def converted(array: np.ndarray, dtype: str, *, saturate: bool, round_mode: str) -> np.ndarray:
    """ONNX `Cast` of a constant, computed with numpy."""
    target = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype == "float8_e8m0":
            return numpy_helper.to_float8e8m0(array, saturate, round_mode)
        if dtype.startswith("float8") and saturate:
            return numpy_helper.saturate_cast(array, target)
        if "int" in dtype and logical_name(array.dtype).startswith(("float", "bfloat")):
            return cut_off(array, dtype)
        return array.astype(target)


def converting(
    value: Value, dtype: str, *, saturate: bool, round_mode: str, free: bool
) -> Callable[[te.Tensor], te.Tensor]:
    """A kernel that gives `value` in another logical dtype."""

    def build(x: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            return convert(load(x, value.dtype, index), dtype, saturate=saturate, round_mode=round_mode)

        rounded = {ROUNDED: "free" if free else "exact"} if _is_float(value.dtype) and _is_float(dtype) else {}
        return compute(value.shape, element, name="cast", attrs=rounded)

    return build


def _is_float(dtype: str) -> bool:
    return dtype in ("float16", "bfloat16", "float32")
