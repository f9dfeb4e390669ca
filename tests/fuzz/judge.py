"""The outcome of a model that is built, run at several sizes, and compared.

    right       results at every size are those of the references
    wrong       they are not
    refused     a `DeploykitError` when building
    no run      a `DeploykitError` when running
    fault       an `InternalError` or any other exception; `died` is for those that end the process
    unjudged    there is no usable reference: none runs the model, or they differ from each other

The references are the results of ONNX Runtime and the expected results in float64. If there are no expected results and
the result differs from ONNX Runtime, ONNX's reference implementation provides them. A float result is right if it is
near one of the references. The tolerance depends on the largest element, on the coarsest float dtype in the model, and
on the distance between the two references.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import deploykit
from tests.fuzz.workers import Say, any_memory

Feeds = Mapping[str, np.ndarray]
Results = Mapping[str, np.ndarray]

RTOL, SCALED, ATOL = 1e-4, 2e-5, 2e-5
"""Tolerances relative to an element, relative to the largest element, and absolute."""
ROUNDINGS = 4
"""How often a result may have been rounded to the coarsest float dtype in the model."""
APART = 20
"""The tolerance, as a multiple of the distance between the references."""
DISAGREE = 1e-3
"""Distance of the references, relative to the largest element, above which a result cannot be judged."""


@dataclass(frozen=True)
class Way:
    """How to build and run a model."""

    target: str = "host"
    fuse: bool = True
    sanitize: bool = False
    largest: int | None = None
    """The upper bound of every symbolic dim; the embedded target needs one."""


@dataclass(frozen=True)
class Outcome:
    kind: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind in ("wrong", "fault", "died")


def judge(
    model: onnx.ModelProto, runs: Sequence[Feeds], expected: Sequence[Results] | None, way: Way, say: Say
) -> Outcome:
    """Build once, run everywhere, compare."""
    say("reference")
    judged = by_onnxruntime(model, runs)
    say("build")
    with tempfile.TemporaryDirectory(prefix="deploykit-fuzz-") as folder:
        try:
            dims = {} if way.largest is None else dict.fromkeys(symbols(model), (1, way.largest))
            deploykit.build(model, way.target, dims, f"{folder}/model", fuse=way.fuse)
        except deploykit.InternalError as error:
            return Outcome("fault", f"build: {error}")
        except deploykit.DeploykitError as error:
            return Outcome("refused", str(error))
        except Exception as error:  # noqa: BLE001  any other exception is a defect
            return Outcome("fault", f"build: {type(error).__name__}: {error}")
        say("run")
        try:
            memory = any_memory() if way.sanitize else contextlib.nullcontext()
            with memory, deploykit.open(f"{folder}/model", sanitize=way.sanitize) as session:
                results = [session.run(feeds) for feeds in runs]
        except deploykit.UsageError as error:
            return Outcome("no run", str(error))
        except Exception as error:  # noqa: BLE001
            return Outcome("fault", f"run: {type(error).__name__}: {error}")
    found = compare(results, judged, expected, epsilon(model))
    if expected is not None or found.kind == "right":
        return found
    say("reference")
    other = by_reference(model, runs)
    if isinstance(other, str):
        return found
    return compare(results, judged, other, epsilon(model))


def compare(
    results: Sequence[Results],
    judged: Sequence[Results] | str,
    expected: Sequence[Results] | None,
    epsilon: float = 0.0,
) -> Outcome:
    """Compare results with references. `judged` are the results of ONNX Runtime, or the reason why there are none."""
    if isinstance(judged, str) and expected is None:
        return Outcome("unjudged", judged)
    for position, got in enumerate(results):
        first = None if isinstance(judged, str) else judged[position]
        second = None if expected is None else expected[position]
        for name, actual in got.items():
            references = [r[name] for r in (first, second) if r is not None]
            outcome = _compare_values(f"{name} at run {position}", actual, references, epsilon)
            if outcome is not None:
                return outcome
    return Outcome("right")


def _compare_values(name: str, actual: Any, references: list[Any], epsilon: float) -> Outcome | None:
    """Compare tensors, sequences or optionals; `None` when right."""
    if isinstance(actual, list):
        if any(not isinstance(r, list) or len(r) != len(actual) for r in references):
            return Outcome("wrong", f"{name}: a sequence of {len(actual)} items")
        items = (
            _compare_values(f"item {position} of {name}", item, [r[position] for r in references], epsilon)
            for position, item in enumerate(actual)
        )
        return next((outcome for outcome in items if outcome is not None), None)
    if actual is None or any(r is None for r in references):
        same = all((r is None) == (actual is None) for r in references)
        return None if same else Outcome("wrong", f"{name}: an optional that is there in one place only")
    return _compare(name, actual, [np.asarray(r) for r in references], epsilon)


def _compare(name: str, actual: np.ndarray, references: list[np.ndarray], epsilon: float) -> Outcome | None:
    """Compare tensors; `None` when right."""
    shapes = {r.shape for r in references}
    if len(shapes) > 1:
        return Outcome("unjudged", f"{name}: the references give shapes {shapes}")
    if actual.shape not in shapes:
        return Outcome("wrong", f"{name}: shape {actual.shape}, not {shapes.pop()}")
    if actual.size == 0:
        return None
    if references[0].dtype.kind in "biuOSTU":
        differing = [int(np.count_nonzero(actual != r)) for r in references]
        if min(differing) == 0:
            return None
        kind = "wrong" if len(references) == 1 or np.array_equal(*references) else "unjudged"
        return Outcome(kind, f"{name}: {min(differing)} of {actual.size} elements differ")
    widest = np.complex128 if "c" in {a.dtype.kind for a in (actual, *references)} else np.float64
    wide = [r.astype(widest) for r in references]
    apart = _distance(wide[0], wide[-1])
    scale = max(float(np.abs(np.where(np.isfinite(r), r, 0)).max()) for r in wide)
    rtol, scaled = max(RTOL, ROUNDINGS * epsilon), max(SCALED, epsilon)
    worst = min(
        float((_distance(actual.astype(widest), r) - rtol * np.abs(np.where(np.isfinite(r), r, 0))).max()) for r in wide
    )
    disagree = float(apart.max()) > DISAGREE * scale
    if worst <= ATOL + scaled * scale + (0 if disagree else APART * float(apart.max())):
        return None
    if disagree:
        return Outcome("unjudged", f"{name}: the references are {apart.max():.1e} apart")
    return Outcome("wrong", f"{name}: off by {worst:.2e} of {scale:.2e}")


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        distance = np.where(same, 0.0, np.abs(a - b))
    return np.where(np.isnan(distance), np.inf, distance)


def by_onnxruntime(model: onnx.ModelProto, runs: Sequence[Feeds]) -> list[Results] | str:
    """The results of ONNX Runtime, or the reason why there are none. It runs without fusions, which crash on some
    graphs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        session: Any = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [o.name for o in session.get_outputs()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [dict(zip(names, session.run(names, dict(feeds)), strict=True)) for feeds in runs]
    except Exception as error:  # noqa: BLE001  its exceptions have no common base class
        return f"ONNX Runtime: {error}"


def by_reference(model: onnx.ModelProto, runs: Sequence[Feeds]) -> list[Results] | str:
    """The results of ONNX's reference implementation, or the reason why there are none."""
    names = [o.name for o in model.graph.output]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(model)
            return [dict(zip(names, evaluator.run(None, dict(feeds)), strict=True)) for feeds in runs]
    except Exception as error:  # noqa: BLE001  its operators raise any exception
        return f"ONNX's reference implementation: {error}"


COARSE = {TensorProto.FLOAT16: 2.0**-10, TensorProto.BFLOAT16: 2.0**-7}


def epsilon(model: onnx.ModelProto) -> float:
    """The distance from 1 to the next larger number, in the coarsest float dtype of inputs, outputs, weights and
    casts."""
    types = [v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)]
    types += [t.data_type for t in model.graph.initializer]
    types += [a.i for node in model.graph.node for a in node.attribute if a.name in ("to", "dtype")]
    return max((COARSE.get(t, 0.0) for t in types), default=0.0)


def symbols(model: onnx.ModelProto) -> list[str]:
    """The names of the symbolic dims of the inputs."""
    dims = (d for v in model.graph.input for d in v.type.tensor_type.shape.dim)
    return list(dict.fromkeys(d.dim_param for d in dims if d.dim_param))


def text_of(model: onnx.ModelProto) -> str:
    """A readable text of the model. ONNX's text form fails for models with invalid strings."""
    try:
        return str(onnx.printer.to_text(model))
    except Exception:  # noqa: BLE001  the printer raises any exception for an invalid model
        return str(model)
