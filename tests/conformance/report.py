"""Run cases of the ONNX backend suite and count: `python -m tests.conformance.report [PATTERN] [OPTIONS]`.

Prints failures with their reasons as they occur, a table by kind, and the differences from the lists of known failures.
The exit code is 1 if there are differences. `--dynamic` runs the dynamic variants of the cases that are expected to
pass. `--runtime` is one of `tests.runtimes`. `--in-place` chooses how many results are computed over an operand's
memory: none, or all that may be. `--write` rewrites the list of known failures from a whole run on the host.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.pool import Pool

from deploykit.cli.console import messages, results
from deploykit.compiler.program.inplace import InPlace
from tests.conformance import dynamic
from tests.conformance.suite import DYNAMIC_FAILURES, KNOWN_FAILURES, cases, dynamic_failures, known_failures
from tests.runtimes import HOST, RUNTIMES, named

LONGEST_REASON = 160

SUITE = "tests/conformance/test_onnx_suite.py"

NO_VARIANT = "no variant"
"""The outcome of a case that has no variant with symbolic dims. Such a case does not count."""

PROGRESS = 50
"""Number of cases between two lines about progress."""


def outcome(name: str) -> tuple[str, str | None]:
    """The case and the reason why it fails, `None` if it passes."""
    return _outcome(name, cases()[name].run)


def dynamic_outcome(name: str, *, bounded: bool) -> tuple[str, str | None]:
    """The same for the case's dynamic variant."""
    return _outcome(name, lambda: dynamic.check(cases()[name], bounded=bounded))


def _outcome(name: str, run: Callable[[], object]) -> tuple[str, str | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except dynamic.NoVariant:
        return name, NO_VARIANT
    except Exception as error:  # noqa: BLE001  every failure is a result here
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        reason = lines[1].removeprefix("- ") if len(lines) > 1 and lines[1].startswith("- ") else lines[0]
        return name, f"{type(error).__name__}: {reason}"[:LONGEST_REASON]
    return name, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--runtime", choices=[runtime.name for runtime in RUNTIMES], default=HOST.name)
    parser.add_argument("--in-place", choices=[choice.value for choice in InPlace], default=InPlace.WHERE_FREE.value)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options = parser.parse_args()
    names = [n for n in cases() if re.search(options.pattern, n) and not (options.dynamic and n in known_failures())]
    runtime = named(options.runtime)
    if runtime.missing:
        parser.error(f"{runtime.name} {runtime.missing}")
    if options.write and runtime is not HOST:
        parser.error(f"what only {runtime.name} cannot do is written by hand, into tests/exceptions/{runtime.name}.txt")
    run = partial(dynamic_outcome, bounded=runtime.bounded) if options.dynamic else outcome
    # Fresh processes: drivers of devices do not survive a fork.
    spawning = multiprocessing.get_context("spawn")
    choice = (runtime.name, options.in_place)
    with spawning.Pool(options.jobs, initializer=_begin, initargs=choice, maxtasksperchild=200) as pool:
        failures = _failures(names, run, pool)
    _print_table(names, failures)
    path, listed = (DYNAMIC_FAILURES, dynamic_failures()) if options.dynamic else (KNOWN_FAILURES, known_failures())
    if options.write:
        path.write_text("".join(f"{name}: {listed.get(name, reason)}\n" for name, reason in sorted(failures.items())))
        return 0
    test = f"{SUITE}::{'test_dynamic_variant' if options.dynamic else 'test_case'}"
    expected = {name for name in names if name in listed or f"{test}[{name}]" in runtime.exceptions}
    for name in sorted(expected ^ set(failures)):
        print(f"{name} {'is a known failure and passes' if name in expected else 'is no known failure'}")
    return int(expected != set(failures))


def _begin(runtime: str, in_place: str) -> None:
    """Let this process run cases on a runtime, until it ends."""
    named(runtime).placing(InPlace(in_place)).as_backend().__enter__()


def _failures(names: list[str], run: Callable[[str], tuple[str, str | None]], pool: Pool) -> dict[str, str]:
    """The reason for each case that fails. Removes cases without a variant from `names`."""
    failures: dict[str, str] = {}
    count = len(names)
    for done, (name, reason) in enumerate(pool.imap_unordered(run, list(names), chunksize=8), 1):
        if reason == NO_VARIANT:
            names.remove(name)
        elif reason:
            failures[name] = reason
            results.print(f"{name}: {reason}", markup=False, highlight=False, soft_wrap=True)
        if done % PROGRESS == 0 or done == count:
            messages.print(f"{done} of {count} cases, {len(failures)} failed")
    return failures


def _print_table(names: list[str], failures: Mapping[str, str]) -> None:
    total = collections.Counter(cases()[n].kind for n in names)
    failed = collections.Counter(cases()[n].kind for n in failures)
    print(f"\n{'kind':18}{'passed':>8}{'failed':>8}{'total':>8}")
    for kind, count in [*sorted(total.items()), ("all", len(names))]:
        bad = failed[kind] if kind != "all" else len(failures)
        print(f"{kind:18}{count - bad:8}{bad:8}{count:8}")


if __name__ == "__main__":
    sys.exit(main())
