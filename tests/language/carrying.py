"""Small models that carry states, in a folder, with a tokenizer and a template of conversations."""

from __future__ import annotations

import json
import string
from pathlib import Path

import tokenizers

from tests.frontends.huggingface.seeds import GOLDENS, write_folder
from tests.language.models import TEMPLATE

WORDS = [*string.ascii_lowercase, *"0123456789 :.?!,;-_\nQASE"]

CARRYING = ("mamba", "lfm2")
"""The names of goldens with their shapes."""


def write_carrying_model(folder: Path, name: str) -> Path:
    facts = json.loads((GOLDENS / f"{name}.json").read_text())
    write_folder(folder, facts["config"] | {"eos_token_id": WORDS.index("E")}, facts["shapes"])
    write_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def write_tokenizer(folder: Path) -> None:
    """One whose tokens are characters."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE({word: n for n, word in enumerate(WORDS)}, []))
    made.decoder = tokenizers.decoders.Fuse()
    made.save(str(folder / "tokenizer.json"))
