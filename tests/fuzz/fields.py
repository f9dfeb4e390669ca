"""Models with edited fields: `python -m tests.fuzz.fields --seed S --loads N --builds M`.

Models of the ONNX backend suite, which covers every operator, get one to four changes (`mutations`). `--loads` of them
are only loaded. `--builds` more are loaded, built, run, and compared with ONNX Runtime or, where that fails, with
ONNX's reference implementation. Each must give the right result, or a `DeploykitError` that says what is wrong with the
model.

    loaded      the model was read and not built
    right       its results are those of a reference
    refused     a `DeploykitError`
    blamed      a `DeploykitError` that shows an exception of Python or TVM to the user
    wrong, fault, died, unjudged     as in `judge`

Failing models are saved under build/fuzz. The exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import deploykit
from tests.conformance.suite import cases, known_failures
from tests.fuzz.judge import Feeds, Outcome, Way, judge, text_of
from tests.fuzz.mutations import mutate
from tests.fuzz.workers import Died, Limits, Say, run

FOLDER = Path("build/fuzz")
PROGRESS = 500
CHARACTERS = 300
LOAD, BUILD = Limits(seconds=20, bytes=6 << 30), Limits(seconds=60, bytes=6 << 30)
EMBEDDED = 10
"""One in this many builds is for the embedded target, and runs under sanitizers."""
SYMBOLIC = (1, 3)
"""The sizes of symbolic dims in runs."""
LARGEST_INPUT = 1 << 20

UNKIND = re.compile(
    r"\b(?:\w*(?:Error|Exception|Interrupt)|StopIteration)\b(?<!ShapeInferenceError)(?<!TypeInferenceError)"
    r"|Check failed|is false|Traceback|object at 0x|NoneType|tirx?\.|relax\.|tvm|\bT\.\w|internal",
    re.IGNORECASE,
)
"""Texts that no message to a user should contain."""


FAILURES = ("wrong", "fault", "died", "blamed")


@dataclass(frozen=True)
class Edited:
    """A test case for a seed: the `name` of the chosen case of the suite, its changed model, a text for each change,
    and the stored inputs of the case."""

    seed: int
    name: str
    model: onnx.ModelProto
    changes: Sequence[str]
    stored: Feeds
    build: bool


def edited(seed: int, build: bool) -> Edited:
    """The model of a seed, to be loaded and, if `build`, also built and run. When a case is removed from the known
    failures, only seeds that choose it change."""
    chooser = random.Random(seed)
    names = sorted(cases())
    name = chooser.choice(names)
    while name in known_failures() or cases()[name].kind == "real":
        name = chooser.choice(names)
    case = cases()[name]
    model = case.model
    assert model is not None
    changed, said = mutate(model, chooser, chooser.choice([1, 1, 1, 2, 2, 3, 4]))
    stored: dict[str, np.ndarray] = {}
    if case.source.data_sets:
        for value, array in zip(model.graph.input, case.source.data_sets[0][0], strict=False):
            if isinstance(array, onnx.TensorProto):
                stored[value.name] = numpy_helper.to_array(array)
            elif isinstance(array, np.ndarray | np.generic):
                stored[value.name] = np.asarray(array)
    return Edited(seed, name, changed, said, stored, build)


def outcome(given: Edited, say: Say) -> Outcome:
    say("load")
    warnings.simplefilter("ignore")
    try:
        deploykit.load(given.model)
    except deploykit.InternalError as error:
        return Outcome("fault", f"load: {error}")
    except deploykit.DeploykitError as error:
        return Outcome("blamed" if UNKIND.search(_own(str(error))) else "refused", str(error))
    except Exception as error:  # noqa: BLE001  any other exception is a defect
        return Outcome("fault", f"load: {type(error).__name__}: {error}")
    if not given.build:
        return Outcome("loaded")
    runs = list(_runs(given.model, given.stored, given.seed))
    if not runs:
        return Outcome("unjudged", "its inputs are too large")
    return judged(given.model, runs, _way(given.seed), say)


def _own(message: str) -> str:
    """A message without its quotations from the model."""
    return re.sub(r"'[^']*'", "''", message)


def _way(seed: int) -> Way:
    chooser = random.Random(f"way of {seed}")
    if chooser.randrange(EMBEDDED) == 0:
        return Way("embedded", sanitize=True, largest=8)
    return Way("host", chooser.choice([False, True, True]))


def judged(model: onnx.ModelProto, runs: list[Feeds], way: Way, say: Say) -> Outcome:
    found = judge(model, runs, None, way, say)
    if found.kind in ("refused", "no run") and UNKIND.search(_own(found.detail)):
        return Outcome("blamed", found.detail)
    return found


def _runs(model: onnx.ModelProto, stored: Feeds, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Inputs for each size of the symbolic dims: those of the case if they fit, else random ones."""
    weights = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    symbolic = any(d.dim_param or not d.dim_value for v in inputs for d in v.type.tensor_type.shape.dim)
    generator = np.random.default_rng(seed)
    for size in SYMBOLIC if symbolic else SYMBOLIC[:1]:
        feeds = {}
        for value in inputs:
            shape = [_size(d, size) for d in value.type.tensor_type.shape.dim]
            if any(not 0 <= n <= LARGEST_INPUT for n in shape) or np.prod(shape, dtype=float) > LARGEST_INPUT:
                return
            element = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            given = stored.get(value.name)
            if given is not None and given.shape == tuple(shape) and given.dtype == element:
                feeds[value.name] = given
            elif given is not None and given.size and given.dtype.kind in "iub" and element.kind in "iub":
                feeds[value.name] = np.resize(given, shape).astype(element)
            else:
                feeds[value.name] = np.asarray(generator.integers(0, 2, shape)).astype(element)
                if element.kind == "f":
                    feeds[value.name] = generator.standard_normal(shape).astype(element)
        yield feeds


def _size(dim: onnx.TensorShapeProto.Dimension, size: int) -> int:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return int(dim.dim_param[1:]) + size - 1 if re.fullmatch(r"d\d+", dim.dim_param) else size


def settled(answer: Outcome | Died) -> Outcome:
    """The outcome of an answer. A process that died is a failure, unless it was computing the reference."""
    if isinstance(answer, Outcome):
        return answer
    return Outcome("unjudged" if answer.phase == "reference" else "died", f"{answer.phase}: {answer.reason}")


def save(given: Edited, found: Outcome) -> Path:
    """Write the model and its outcome to files; returns their path without suffix."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"fields-{given.seed}"
    path.with_suffix(".onnx").write_bytes(given.model.SerializeToString())
    changes = "\n".join(f"    {line}" for line in given.changes)
    path.with_suffix(".txt").write_text(
        f"{found.kind}: {found.detail}\n{_way(given.seed)}\n{given.name}\n{changes}\n{text_of(given.model)}\n"
    )
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first model")
    parser.add_argument("--loads", type=int, default=1000, help="models to load")
    parser.add_argument("--builds", type=int, default=0, help="models to build, run and compare besides")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    end = options.seed + options.loads
    loads = (edited(seed, build=False) for seed in range(options.seed, end))
    builds = (edited(seed, build=True) for seed in range(end, end + options.builds))
    total: collections.Counter[str] = collections.Counter()
    for work, limits in ((loads, LOAD), (builds, BUILD)):
        for given, answer in run(work, outcome, limits, options.jobs):
            found = settled(answer)
            total[found.kind] += 1
            if found.kind in FAILURES:
                words = " ".join(found.detail.split())[:CHARACTERS]
                print(f"{given.seed}: {found.kind}: {words} ({save(given, found)}.onnx)", flush=True)
            if total.total() % PROGRESS == 0:
                print(f"{total.total()} of {options.loads + options.builds}: {dict(total)}", flush=True)
    for kind, count in total.most_common():
        print(f"{kind:10}{count:8}")
    return int(any(total[kind] for kind in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
