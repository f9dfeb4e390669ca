"""The output layer of a language model in kinds of few bits: megabytes, perplexity, and tokens per second of an answer.

    python -m bench.heads MODEL --text FILE

Each kind is a build with `--head`, one thread. The text is measured up to `--characters`, in parts of 512 tokens.
Answers of 64 tokens behind 0 tokens take turns; the figure is the median of `--repeats`, per second of the processor's
time, which other programs on the machine disturb less than that of a clock.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import deploykit
from bench.language import measured
from deploykit.checks.language_speed import ANSWER, answers
from deploykit.cli.console import results, table
from deploykit.sessions.session import Session


def answer(session: Session) -> float:
    """Tokens per second of the processor's time; the prompt is a token."""
    start = time.process_time()
    answers(session, 0)
    return (ANSWER + 1) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True, metavar="FILE")
    parser.add_argument("--characters", type=int, default=12_000)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=["q8", "q4_1", "q4"])
    parser.add_argument("--quantize", metavar="KIND", help="That of the other weights.")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    text = options.text.read_text(encoding="utf-8")[: options.characters]
    shown = table("head", ">MB", ">perplexity", ">tokens per second", title=options.model)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sessions = []
        for kind in options.kinds:
            place = folder / kind
            deploykit.build(
                options.model, output=place, dims={"context": (1, 2048)}, head=kind, quantize=options.quantize
            )
            sessions.append(stack.enter_context(deploykit.open(place, threads=1)))
        rates = measured([partial(answer, session) for session in sessions], options.repeats)
        for kind, session, rate in zip(options.kinds, sessions, rates, strict=True):
            size = f"{session.manifest.peak_memory.weights / 1e6:.1f}"
            shown.add_row(kind, size, f"{session.perplexity(text):.2f}", f"{rate:.0f}")
    results.print(shown)


if __name__ == "__main__":
    main()
