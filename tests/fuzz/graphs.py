"""Random valid graphs against ONNX Runtime: `python -m tests.fuzz.graphs --seed S --count N`.

Each seed gives a graph with symbolic dims (`generate`), which is built once and run at four sizes. Most graphs are
built for this machine; one in `EMBEDDED` is built as C and runs under sanitizers. A failing graph is made smaller,
unless another one failed with the same message. It is saved under build/fuzz as a model, its inputs and a text. The
exit code is 1 if a graph failed.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from tests.fuzz.generate import Case, generate
from tests.fuzz.judge import Outcome, Way, judge, text_of
from tests.fuzz.shrink import shrink
from tests.fuzz.workers import Died, Limits, Say, run

FOLDER = Path("build/fuzz")
EMBEDDED = 10
PROGRESS = 50
LIMITS = Limits(seconds=90)
CHARACTERS = 200


def way_of(seed: int) -> Way:
    """How the graph of a seed is built."""
    chooser = random.Random(f"way of {seed}")
    if chooser.randrange(EMBEDDED) == 0:
        return Way("embedded", sanitize=True, largest=64)
    return Way("host", chooser.choice([False, True, True, True, True, True]), largest=chooser.choice([None, None, 64]))


def outcome(given: tuple[Case | int, Way], say: Say) -> Outcome:
    """The outcome of a case, or of the graph of a seed."""
    case, way = given
    say("generate")
    if isinstance(case, int):
        case = generate(case)
    return judge(case.model, case.feeds, case.expected, way, say)


def settled(answer: Outcome | Died) -> Outcome:
    """The outcome of an answer. A process that died is a failure, unless it was computing the graph or the
    reference."""
    if isinstance(answer, Outcome):
        return answer
    kind = "unjudged" if answer.phase in ("reference", "generate") else "died"
    return Outcome(kind, f"{answer.phase}: {answer.reason}")


def isolated(case: Case, way: Way) -> Outcome:
    """The outcome of a case that is run in a separate process."""
    ((_, answer),) = run([(case, way)], outcome, LIMITS)
    return settled(answer)


def signature(found: Outcome) -> str:
    """A text that is probably the same for all outcomes of one defect."""
    return found.kind if found.kind in ("wrong", "died") else f"{found.kind} {found.detail[:40]}"


def smaller(case: Case, way: Way, found: Outcome) -> tuple[Case, Way]:
    """A smaller case that fails in the same way, and how it is built: without sanitizers if it also fails without
    them."""

    def fails(case: Case, way: Way) -> bool:
        again = isolated(case, way) if found.kind == "died" else outcome((case, way), lambda _: None)
        return signature(again) == signature(found)

    plain = replace(way, sanitize=False)
    way = plain if way.sanitize and fails(case, plain) else way
    return shrink(case, lambda c: fails(c, way), attempts=60 if found.kind == "died" or way.sanitize else 200), way


def save(seed: int, case: Case, way: Way, found: Outcome) -> Path:
    """Write the model, its inputs and its outcome to files; returns their path without suffix."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"graph-{seed}"
    onnx.save(case.model, path.with_suffix(".onnx"))
    arrays = {f"{position}:{name}": a for position, feeds in enumerate(case.feeds) for name, a in feeds.items()}
    np.savez(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
    text = f"{found.kind}: {found.detail}\n{way}\n{text_of(case.model)}\n"
    path.with_suffix(".txt").write_text(text)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--count", type=int, default=100, help="graphs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-shrink", action="store_true", help="save what fails as it is")
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    seen: set[str] = set()
    seeds = ((seed, way_of(seed)) for seed in range(options.seed, options.seed + options.count))
    for (seed, way), answer in run(seeds, outcome, LIMITS, options.jobs):
        found = settled(answer)
        counts[found.kind] += 1
        if found.kind != "right":
            print(f"{seed}: {found.kind}: {' '.join(found.detail.split())[:CHARACTERS]}", flush=True)
        if found.kind not in ("right", "unjudged"):
            failing = generate(seed), way
            if not options.no_shrink and signature(found) not in seen:
                failing = smaller(*failing, found)
            if found.kind != "wrong":
                seen.add(signature(found))
            path = save(seed, *failing, found)
            print(f"    {len(failing[0].model.graph.node)} nodes in {path}.onnx", flush=True)
        if counts.total() % PROGRESS == 0:
            print(f"{counts.total()} of {options.count}: {dict(counts)}", flush=True)
    for kind, count in counts.most_common():
        print(f"{kind:10}{count:8}")
    return int(bool(set(counts) - {"right", "unjudged"}))


if __name__ == "__main__":
    sys.exit(main())
