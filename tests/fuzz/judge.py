"""What becomes of a model: built, run at several sizes, compared.

    right       results at every size are those of the references
    wrong       they are not
    refused     a `DeploykitError` when building
    no run      one when running
    fault       any other exception; `died` is for those that end the process
    unjudged    the references cannot tell: none runs the model, or they differ from each other

The references are ONNX Runtime and, where it is given, what was computed in float64. A float result is right when it is
near one of them, by the size of the largest element and by how far the two are apart.
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

import deploykit
from tests.fuzz.workers import Say, any_memory

Feeds = Mapping[str, np.ndarray]
Results = Mapping[str, np.ndarray]

RTOL, SCALED, ATOL = 1e-4, 2e-5, 2e-5
"""Of an element; of the largest element; absolute."""
APART = 20
"""Times the distance between the references."""
DISAGREE = 1e-3
"""Of the largest element: references that far apart tell nothing."""


@dataclass(frozen=True)
class Way:
    """How to build and run."""

    target: str = "host"
    opt: str = "O2"
    sanitize: bool = False
    largest: int | None = None
    """Upper bound of every symbolic dim; the embedded target needs one."""


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
            deploykit.build(model, way.target, dims, f"{folder}/model", opt=way.opt)
        except deploykit.DeploykitError as error:
            return Outcome("refused", str(error))
        except Exception as error:  # noqa: BLE001  whatever else a build raises is what is looked for
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
    return compare(results, judged, expected)


def compare(results: Sequence[Results], judged: Sequence[Results] | str, expected: Sequence[Results] | None) -> Outcome:
    """`judged` is what ONNX Runtime gives, or why it gives nothing."""
    if isinstance(judged, str) and expected is None:
        return Outcome("unjudged", judged)
    for position, got in enumerate(results):
        first = None if isinstance(judged, str) else judged[position]
        second = None if expected is None else expected[position]
        for name, actual in got.items():
            references = [r[name] for r in (first, second) if r is not None]
            outcome = _compare(f"{name} at run {position}", actual, references)
            if outcome is not None:
                return outcome
    return Outcome("right")


def _compare(name: str, actual: np.ndarray, references: list[np.ndarray]) -> Outcome | None:
    """`None` when right."""
    shapes = {r.shape for r in references}
    if len(shapes) > 1:
        return Outcome("unjudged", f"{name}: the references give shapes {shapes}")
    if actual.shape not in shapes:
        return Outcome("wrong", f"{name}: shape {actual.shape}, not {shapes.pop()}")
    if actual.size == 0:
        return None
    if references[0].dtype.kind in "biu":
        differing = [int(np.count_nonzero(actual != r)) for r in references]
        if min(differing) == 0:
            return None
        kind = "wrong" if len(references) == 1 or np.array_equal(*references) else "unjudged"
        return Outcome(kind, f"{name}: {min(differing)} of {actual.size} elements differ")
    wide = [r.astype(np.float64) for r in references]
    apart = _distance(wide[0], wide[-1])
    scale = max(float(np.abs(np.where(np.isfinite(r), r, 0)).max()) for r in wide)
    worst = min(
        float((_distance(actual.astype(np.float64), r) - RTOL * np.abs(np.where(np.isfinite(r), r, 0))).max())
        for r in wide
    )
    disagree = float(apart.max()) > DISAGREE * scale
    if worst <= ATOL + SCALED * scale + (0 if disagree else APART * float(apart.max())):
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
    """What ONNX Runtime gives, without its fusions, which crash on some graphs; or why it gives nothing."""
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
    except Exception as error:  # noqa: BLE001  its exceptions share no base of their own
        return f"ONNX Runtime: {error}"


def symbols(model: onnx.ModelProto) -> list[str]:
    """Names of the symbolic dims of the inputs."""
    dims = (d for v in model.graph.input for d in v.type.tensor_type.shape.dim)
    return list(dict.fromkeys(d.dim_param for d in dims if d.dim_param))


def text_of(model: onnx.ModelProto) -> str:
    """For people; a model whose strings are broken has no text form of ONNX's."""
    try:
        return str(onnx.printer.to_text(model))
    except Exception:  # noqa: BLE001  the printer raises anything for a broken model
        return str(model)
