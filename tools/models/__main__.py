"""Builds tiny models of transformers' architectures, compares them with eager mode, and writes docs/models.md.

    python -m tools.models [--filter PATTERN] [--part I/N] [--fresh]
    python -m tools.models --page

Needs PyTorch, transformers and the packages of requirements.lock. Each model is a process with limits on time and
memory. Results are kept one by one in `build/models`, and are not computed again without `--fresh`; `--page` collects
them in docs/models.json, where those of other runs stay, and writes the page, which needs no PyTorch.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from dataclasses import asdict
from functools import partial

from tools.models.page import FOLDER, Row, collect

SECONDS, BYTES = 300, 6 << 30
"""Limits of a model."""

FIRST = "dpr"
"""A small model that takes the route of PyTorch."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.models", description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression that the name of a case matches")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th case, from the I-th on")
    parser.add_argument("--fresh", action="store_true", help="compute known results again")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if not given.page:
        _survey(given.filter, given.part, fresh=given.fresh)
    print(collect())


def _survey(pattern: str, part: str, *, fresh: bool) -> None:
    import torch
    import transformers

    from tests.zoo import forked
    from tools.models.cases import CASES
    from tools.models.survey import survey

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    FOLDER.mkdir(parents=True, exist_ok=True)
    start, step = map(int, part.split("/"))
    names = [name for name in CASES if re.search(pattern, name)][start::step]
    todo = [name for name in names if fresh or not (FOLDER / f"{name}.json").exists()]
    if len(todo) > 1:
        survey(CASES[FIRST])  # what this loads, each process shares
    for name in todo:
        path = FOLDER / f"{name}.json"
        began = time.monotonic()
        found = forked.run(partial(survey, CASES[name]), FOLDER / f"{name}.log", forked.Limits(SECONDS, BYTES))
        if "kind" in found:
            why = f"{found['kind']}: {found['error']}"
            case = CASES[name]
            found = asdict(Row(name, case.family, case.model, name, "failed", reason=why))
        path.write_text(json.dumps(found))
        facts = f"{found['status']} {found.get('route', '')} {found.get('error')} {found['reason'][:150]!r}"
        print(f"{name}: {facts} {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
