"""A small language model in a GGUF file, with a tokenizer and a template of conversations."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType as Format

from tests.frontends.gguf.files import write_model
from tests.frontends.huggingface.seeds import GOLDENS

WORDS = [*string.ascii_lowercase, *string.digits, "w1", *"ĠĊ.:?!,Ã©QASE"]
"""Letters, bytes of other characters, and the names of roles."""

END = WORDS.index("E")

TEMPLATE = (
    "{% for message in messages %}{{ {'user': 'Q', 'assistant': 'A', 'system': 'S'}[message['role']] }}:"
    "{{ message['content'] }}\n{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
)


def write_language_model(
    path: Path,
    form: Format = Format.F32,
    template: str = TEMPLATE,
    *,
    name: str = "llama",
    words: Sequence[str] = WORDS,
    context: int = 40,
    **more: Any,
) -> Path:
    """Write the file, of a model for texts of `context` tokens. `name` is that of the golden with the shapes,
    `more` are entries of its metadata."""
    facts = json.loads((GOLDENS / f"{name}.json").read_text())
    config = facts["config"] | {"num_key_value_heads": facts["config"].get("num_key_value_heads") or 4}
    config["max_position_embeddings"] = context
    entries = {"tokenizer.ggml.eos_token_id": END} | ({"tokenizer.chat_template": template} if template else {})
    write_model(path, config, facts["shapes"], form, words, **entries, **more)
    return path
