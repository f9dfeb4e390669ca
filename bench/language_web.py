"""A language model in a page of Chromium: how long it takes to load, the memory of its process, and tokens per second.

    python -m bench.language_web FOLDER [--device wasm] [--threads 1,2]

FOLDER is a package of a language model for the web. The page loads it in a worker, from a server on this machine: at
the first visit with nothing in storage, and then once more. Memory is what the process of the page takes at its peak
and at the end of the load, beyond what it took before, without files that it shares with other processes; it is read in
Linux. Speeds are those of a prompt of 128 tokens and of an answer of 64, the medians of `--repeats`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.browser import ISOLATED, FolderHandler, served
from deploykit.artifact.manifest import read_manifest
from deploykit.checks.language_speed import ANSWER, PROMPTS
from deploykit.cli.console import results, table
from tests.apps.devtools import Page, chromium

PROMPT = PROMPTS[0]
PAUSE = 0.003
"""Seconds between two looks at the memory."""
LOAD = """(async () => {{
  globalThis.package = await import('./index.mjs');
  const start = performance.now();
  globalThis.model = await package.load({{ device: '{device}', threads: {threads}, worker: true }});
  return (performance.now() - start) / 1000;
}})()"""
SPEED = """(async () => {{
  const token = () => 100 + Math.floor(Math.random() * 10000);
  const options = {{ maxTokens: {answer}, ignoreEnd: true }};
  const {{ timings }} = await model.complete(Array.from({{ length: {prompt} }}, token), options);
  return [timings.promptTokens / timings.promptSeconds, (timings.tokens - 1) / timings.seconds];
}})()"""


def own_memory(page: Page) -> dict[int, int]:
    """Bytes that processes of pages have for themselves, in Linux. Chromium has some in reserve."""
    processes = page.of_browser("SystemInfo.getProcessInfo")["processInfo"]
    return {each["id"]: anonymous(each["id"]) for each in processes if each["type"] == "renderer"}


def anonymous(process: int) -> int:
    """Bytes of memory of a process that are no files; 0 once it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return sum(int(size) for size in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+) kB", status)) * 1024


@contextmanager
def peak(page: Page) -> Iterator[list[int]]:
    """Looks at what the process of the page takes beyond what it took before; gives the most, and the last."""
    before = own_memory(page)
    most = [0, 0]
    done = threading.Event()

    def look() -> None:
        while not done.wait(PAUSE):
            most[1] = max(anonymous(process) - own for process, own in before.items())
            most[0] = max(most)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def visit(page: Page, device: str, threads: int) -> dict[str, float]:
    """Load the model in a page that has just been opened."""
    with peak(page) as most:
        seconds = page.evaluate(LOAD.format(device=device, threads=threads))
    return {"seconds": seconds, "peak": most[0], "end": most[1]}


def measured(folder: Path, headers: Mapping[str, str], device: str, threads: int, repeats: int) -> dict[str, Any]:
    """What was measured with so many threads."""

    class Handler(FolderHandler):
        def end_headers(self) -> None:
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

    options = ("--enable-unsafe-webgpu",) if device == "webgpu" else ()
    with served(partial(Handler, directory=str(folder))) as address, TemporaryDirectory() as profile:
        with chromium(*options, profile=Path(profile)) as page:
            page.open(f"{address}/package.json")
            first = visit(page, device, threads)
        with chromium(*options, profile=Path(profile)) as page:
            page.open(f"{address}/package.json")
            second = visit(page, device, threads)
            runs = [page.evaluate(SPEED.format(prompt=PROMPT, answer=ANSWER)) for _ in range(repeats)]
        prompt, answer = (statistics.median(each) for each in zip(*runs, strict=True))
    weights = read_manifest(folder).peak_memory.weights
    return {"first": first, "second": second, "prompt": prompt, "answer": answer, "weights": weights}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--device", default="wasm")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    columns = (">threads", "visit", ">seconds", ">MB at peak", ">MB at end", ">MB of weights", ">prompt/s", ">answer/s")
    shown = table(*columns, title=f"{given.folder.name} on {given.device} in Chromium")
    for threads in given.threads:
        found = measured(given.folder, ISOLATED if threads > 1 else {}, given.device, threads, given.repeats)
        for name in ("first", "second"):
            own = found[name]
            speeds = (f"{found[what]:.0f}" if name == "second" else "" for what in ("prompt", "answer"))
            sizes = (f"{own['peak'] / 1e6:.0f}", f"{own['end'] / 1e6:.0f}", f"{found['weights'] / 1e6:.1f}")
            shown.add_row(str(threads), name, f"{own['seconds']:.2f}", *sizes, *speeds)
    results.print(shown)


if __name__ == "__main__":
    main()
