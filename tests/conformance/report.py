"""Run cases of the ONNX backend suite and count: `python -m tests.conformance.report [PATTERN] [OPTIONS]`.

Prints the failures with their reasons as they come, and a table by kind. `--dynamic` runs the dynamic variants of the
cases that are expected to pass. `--target embedded` builds C and runs it under the address and undefined behaviour
sanitizers, `--target webgpu` builds WebAssembly and runs it in node, or with `--device webgpu` shaders, which run in
Chromium. `--write` rewrites the list of known failures from a whole run.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import re
import warnings
from collections.abc import Callable

from deploykit import onnx_backend
from deploykit.cli.console import messages, results
from tests.conformance import dynamic
from tests.conformance.suite import DYNAMIC_FAILURES, KNOWN_FAILURES, cases, dynamic_failures, known_failures

LONGEST_REASON = 160

NO_VARIANT = "no variant"
"""The outcome of a case that has none with symbolic dims; it does not count."""

PROGRESS = 50
"""Cases between two lines that say how far the run is."""


def outcome(name: str) -> tuple[str, str | None]:
    """The case and why it fails, `None` when it passes."""
    return _outcome(name, cases()[name].run)


def dynamic_outcome(name: str) -> tuple[str, str | None]:
    """The same for the case's dynamic variant."""
    return _outcome(name, lambda: dynamic.check(cases()[name]))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--target", default="host")
    parser.add_argument("--device")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options = parser.parse_args()
    names = [n for n in cases() if re.search(options.pattern, n) and not (options.dynamic and n in known_failures())]
    run = dynamic_outcome if options.dynamic else outcome
    onnx_backend.TARGET, onnx_backend.SANITIZE = options.target, options.target == "embedded"
    onnx_backend.DEVICE = options.device
    failures: dict[str, str] = {}
    with multiprocessing.Pool(options.jobs, maxtasksperchild=200) as pool:
        count = len(names)
        for done, (name, reason) in enumerate(pool.imap_unordered(run, names, chunksize=8), 1):
            if reason == NO_VARIANT:
                names.remove(name)
            elif reason:
                failures[name] = reason
                results.print(f"{name}: {reason}", markup=False, highlight=False, soft_wrap=True)
            if done % PROGRESS == 0 or done == count:
                messages.print(f"{done} of {count} cases, {len(failures)} failed")
    total = collections.Counter(cases()[n].kind for n in names)
    failed = collections.Counter(cases()[n].kind for n in failures)
    print(f"\n{'kind':18}{'passed':>8}{'failed':>8}{'total':>8}")
    for kind, count in [*sorted(total.items()), ("all", len(names))]:
        bad = failed[kind] if kind != "all" else len(failures)
        print(f"{kind:18}{count - bad:8}{bad:8}{count:8}")
    if options.write:
        kept = dynamic_failures() if options.dynamic else known_failures()
        lines = [f"{name}: {kept.get(name) or reason}" for name, reason in sorted(failures.items())]
        (DYNAMIC_FAILURES if options.dynamic else KNOWN_FAILURES).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
