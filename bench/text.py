"""Times encoding next to the library `tokenizers`, on one thread.

    python -m bench.text [TOKENIZER.JSON ...]

Without files, it takes the designs of `tests/text/designs.py`. The texts are the lines of the project's documents, and
all of them as one text; both are called from Python. `build/bench-text.md` gets the table.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers

from deploykit.text import Tokenizer, pack_fields
from tests.text.designs import DESIGNS, ROOT, design

ROUNDS = 5
OUTPUT = Path("build") / "bench-text.md"


def texts() -> dict[str, list[str]]:
    whole = "\n".join(file.read_text("utf-8") for file in sorted(ROOT.glob("docs/*.md")))
    return {"lines": [line for line in whole.split("\n") if line.strip()], "one text": [whole]}


def tokens_per_second(count: Callable[[str], int], given: Sequence[str]) -> float:
    """The best of several rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        start = time.process_time()
        tokens = sum(count(text) for text in given)
        best = max(best, tokens / (time.process_time() - start))
    return best


def rows(references: dict[str, tokenizers.Tokenizer]) -> Iterator[str]:
    yield "| tokenizer | texts | deploykit, million tokens/s | tokenizers, million tokens/s | ratio |"
    yield "|---|---|---|---|---|"
    for name, theirs in references.items():
        ours = Tokenizer(pack_fields(json.loads(theirs.to_str())))
        theirs.no_padding()
        theirs.no_truncation()
        for kind, given in texts().items():
            fast = tokens_per_second(lambda text, ours=ours: len(ours.encode(text).ids), given)  # type: ignore[misc]
            peer = tokens_per_second(lambda text, theirs=theirs: len(theirs.encode(text).ids), given)  # type: ignore[misc]
            yield f"| {name} | {kind} | {fast / 1e6:.2f} | {peer / 1e6:.2f} | {fast / peer:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="*", type=Path)
    files: list[Path] = parser.parse_args().file
    references = {file.stem: tokenizers.Tokenizer.from_file(str(file)) for file in files}
    lines = []
    for line in rows(references or {name: design(name) for name in sorted(DESIGNS)}):
        print(line, flush=True)
        lines.append(line)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
