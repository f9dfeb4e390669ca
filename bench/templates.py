"""Which templates of conversations become programs: `python -m bench.templates FOLDER`, where each `.jinja` is one.

A program is compared with Jinja as a build does it (`deploykit/language/programs/proof.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from deploykit.errors import UsageError
from deploykit.language.programs.proof import proved
from deploykit.language.programs.steps import NoProgram
from deploykit.language.template import ChatTemplate

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def main(folder: str) -> None:
    counts = {"whole": 0, "in part": 0, "not": 0}
    for path in sorted(Path(folder).glob("*.jinja")):
        try:
            program = proved(ChatTemplate(path.read_text(encoding="utf-8"), SPECIAL))
        except (NoProgram, UsageError) as reason:
            kind, words = "not", str(reason)
        else:
            kind, words = "in part" if program.lacks else "whole", ", ".join(program.lacks)
        counts[kind] += 1
        print(f"{path.stem:55} {kind:8} {words:.100}")
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))


if __name__ == "__main__":
    main(sys.argv[1])
