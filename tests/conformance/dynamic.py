"""Dynamic variants of the suite's cases: the same model with its input dims relaxed to symbols.

Equal sizes above 1 become one symbol. Three relaxations are tried, the widest first: every dim of every input (except
short integer operands such as axes and shapes), every dim of the first input, and the first dim of the first input. The
first relaxation that can be imported is built once and run at several sizes. At the sizes of the case, results are
compared with the stored outputs. At other sizes, they are compared with ONNX's reference implementation where it
accepts the sizes.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit import onnx_backend
from tests.conformance.suite import Case

SHORT_OPERAND = 1
"""Integer inputs up to this rank are operands such as axes and shapes."""

RTOL, ATOL = 1e-3, 1e-5
UNITS = 2
"""Units in the last place by which a result may be off if values in between are rounded, as in the reference."""


class NoVariant(Exception):
    """The case has no dynamic variant: no relaxation of it can be imported."""


@dataclass(frozen=True)
class Variant:
    model: onnx.ModelProto
    sizes: Mapping[str, int]
    symbols: Mapping[str, tuple[str | int, ...]]


def check(case: Case, *, bounded: bool) -> int:
    """Build the widest variant that can be imported and run it. Returns the number of size sets that agreed.
    With `bounded` the dims get upper bounds that allow all size sets.

    Raises `NoVariant`, and whatever goes wrong in building, running and comparing.
    """
    model = case.model
    if model is None or not case.source.data_sets:
        raise NoVariant("no stored data")
    inputs, outputs = case.source.data_sets[0]
    names = [v.name for v in model.graph.input]
    if any(isinstance(x, (list, type(None))) for x in (*inputs, *outputs)):
        raise NoVariant("inputs or outputs that are not tensors")
    given = {n: _array(x) for n, x in zip(names, inputs, strict=False)}
    outputs = [_array(x) for x in outputs]
    if len(given) != len(names):
        raise NoVariant("inputs without stored data")
    if any(x.dtype.kind in "OUS" for x in (*given.values(), *outputs)):
        raise NoVariant("strings, whose bytes have a dim of their own")
    for variant in _variants(model, given):
        with tempfile.TemporaryDirectory() as folder:
            try:
                target, cpu, devices = onnx_backend.TARGET, onnx_backend.CPU, onnx_backend.DEVICES
                dims = {symbol: (1, 2 * size + 1) for symbol, size in variant.sizes.items()} if bounded else None
                deploykit.build(variant.model, target, dims, f"{folder}/model", cpu=cpu, devices=devices)
            except deploykit.UnsupportedModelError:
                continue
            session = onnx_backend.open_artifact(f"{folder}/model")
            _compare(case, list(session.run(given).values()), outputs)
            return 1 + sum(_agrees(case, variant, session, given, sizes) for sizes in _other_sizes(variant))
    raise NoVariant("no relaxation can be imported")


def _array(stored: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(stored) if isinstance(stored, onnx.TensorProto) else np.asarray(stored)


def _variants(model: onnx.ModelProto, given: Mapping[str, np.ndarray]) -> Iterator[Variant]:
    wide = {n: x.ndim for n, x in given.items() if not (x.dtype.kind in "iu" and x.ndim <= SHORT_OPERAND)}
    first = next(iter(given), None)
    seen = []
    for relaxed in (wide, {first: given[first].ndim} if first else {}, {first: 1} if first else {}):
        variant = _relax(model, given, relaxed)
        if variant.sizes and variant.symbols not in seen:
            seen.append(variant.symbols)
            yield variant


def _relax(model: onnx.ModelProto, given: Mapping[str, np.ndarray], axes: Mapping[Any, int]) -> Variant:
    """`axes[n]` is the number of leading axes of input `n` to relax."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    sizes: dict[str, int] = {}
    symbols: dict[str, tuple[str | int, ...]] = {}
    for value in copy.graph.input:
        shape: list[str | int] = list(given[value.name].shape)
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if axis < axes.get(value.name, 0) and int(shape[axis]) > 1:
                symbol = f"d{shape[axis]}"
                sizes[symbol] = int(shape[axis])
                shape[axis] = symbol
                dim.dim_param = symbol
        symbols[value.name] = tuple(shape)
    for value in copy.graph.output:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    return Variant(copy, sizes, symbols)


def _other_sizes(variant: Variant) -> Iterator[dict[str, int]]:
    yield {s: n + 1 for s, n in variant.sizes.items()}
    yield {s: 2 * n + 1 for s, n in variant.sizes.items()}
    yield dict.fromkeys(variant.sizes, 1)


def _agrees(
    case: Case, variant: Variant, session: Any, given: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> bool:
    feeds = {
        n: np.resize(x, [sizes[s] if isinstance(s, str) else s for s in variant.symbols[n]]).astype(x.dtype)
        for n, x in given.items()
    }
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = ReferenceEvaluator(variant.model).run(None, feeds)
    except Exception:  # noqa: BLE001  the reference does not take these sizes
        return False
    try:
        actual = list(session.run(feeds).values())
    except deploykit.ShapeError:  # sizes that the operator's specification rules out; the reference is lenient
        return False
    _compare(case, actual, expected)
    return True


def _compare(case: Case, actual: list[Any], expected: list[Any]) -> None:
    """Compare at the tolerances of the case, or at the accuracy of the results' dtypes where that is coarser."""
    given = [np.asarray(e) for e in expected]
    units = [np.finfo(e.dtype).eps for e in given if np.issubdtype(e.dtype, np.floating)]
    rtol = max([case.source.rtol, RTOL, *(UNITS * float(unit) for unit in units)])
    Runner.assert_similar_outputs(given, actual, rtol, max(case.source.atol, ATOL))
