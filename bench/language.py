"""Language models next to llama.cpp: tokens per second of prompts and answers, one after the other on the same cores.

    python -m bench.language MODEL.gguf --llama-bench build/bin/llama-bench
    python -m bench.language --shape qwen3-0.6b,llama-3.2-1b --llama-bench build/bin/llama-bench

Each row is a file; one of a `--shape` has random weights in Q4_0. Both sides run it with the same number of threads: a
prompt of 128 and of 512 tokens, and answers of 64 tokens behind 0 and 1,024 tokens, as `llama-bench` does it. The
figures are medians of `--repeats` runs, which take turns. Without `--llama-bench` only deploykit runs. `--sequences
1,4,8` adds answers to several prompts in one step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import deploykit
from bench.models.decoders import SHAPES, write_decoder
from deploykit.checks.language_speed import ANSWER, DEPTHS, PROMPTS, answers, prompt
from deploykit.cli.console import results, table


def llama(tool: Path, model: Path, threads: int, *, prompt_tokens: int = 0, depth: int = 0) -> float:
    """What `llama-bench` says."""
    size = ["-p", str(prompt_tokens), "-n", "0"] if prompt_tokens else ["-p", "0", "-n", str(ANSWER), "-d", str(depth)]
    call: list[str | Path] = [tool, "-m", model, "-t", str(threads), *size, "-r", "1", "-o", "json"]
    found = json.loads(subprocess.run(call, capture_output=True, check=True, timeout=600).stdout)
    return float(found[0]["avg_ts"])


def measured(sides: Sequence[Callable[[], float] | None], repeats: int) -> list[float | None]:
    """The median of each side; the sides take turns."""
    for side in sides:
        if side is not None:
            side()
    runs: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, found in zip(sides, runs, strict=True):
            if side is not None:
                found.append(side())
    return [statistics.median(found) if found else None for found in runs]


def lines(model: Path, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What was measured for a file."""
    tool, threads = options.llama_bench, options.threads
    deploykit.build(model, output=folder, dims={"context": (1, 2048)}, fast_math=options.fast_math)
    found: list[dict[str, Any]] = []
    with deploykit.open(folder, threads=threads) as session:
        size = session.manifest.peak_memory.weights
        pages = session.language.pages.count

        def add(what: str, own: Callable[[], float], other: Callable[[], float] | None) -> None:
            ours, theirs = measured([own, None if tool is None else other], options.repeats)
            found.append({"model": model.name, "bytes": size, "what": what, "deploykit": ours, "llama.cpp": theirs})

        for tokens in PROMPTS:
            peer = partial(llama, tool, model, threads, prompt_tokens=tokens)
            add(f"prompt of {tokens}", partial(prompt, session, tokens), peer)
        for depth in DEPTHS:
            peer = partial(llama, tool, model, threads, depth=depth)
            add(f"answer behind {depth}", partial(answers, session, depth), peer)
        for count in options.sequences:
            session.reset({"pages": pages * count})
            add(f"{count} answers at once", partial(answers, session, 64, count), None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL.gguf")
    parser.add_argument(
        "--shape", type=lambda text: text.split(","), default=[], metavar="NAME,...", help=", ".join(SHAPES)
    )
    parser.add_argument("--llama-bench", type=Path, metavar="PROGRAM")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sequences", type=lambda text: [int(n) for n in text.split(",")], default=[])
    parser.add_argument("--fast-math", action="store_true", help="Build with --fast-math.")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if unknown := set(options.shape) - SHAPES.keys():
        parser.error(f"there is no shape '{min(unknown)}'; there are {', '.join(SHAPES)}")
    if not (options.models or options.shape):
        parser.error("give a GGUF file or a --shape")
    found = []
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            found += lines(model, options, Path(folder) / "dist")
    for name in options.shape:
        with tempfile.TemporaryDirectory() as folder:
            model = write_decoder(Path(folder) / f"{name}.gguf", SHAPES[name])
            found += lines(model, options, Path(folder) / "dist")
    shown = table("model", ">MB", "what", ">deploykit", ">llama.cpp", ">ratio", title="tokens per second")
    for line in found:
        ours, theirs = line["deploykit"], line["llama.cpp"]
        ratio = "" if theirs is None else f"{ours / theirs:.2f}"
        other = "" if theirs is None else f"{theirs:.1f}"
        shown.add_row(line["model"], f"{line['bytes'] / 1e6:.1f}", line["what"], f"{ours:.1f}", other, ratio)
    results.print(shown)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
