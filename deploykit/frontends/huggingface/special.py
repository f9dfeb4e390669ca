"""Tokens with a meaning of their own, such as the mask, by their names in the files of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.errors import UsageError
from deploykit.frontends.huggingface.entries import NATURAL, OBJECTS
from deploykit.frontends.huggingface.folder import Folder

TOKENIZER, SETTINGS, SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"


def special_token(folder: Folder, name: str, usual: Sequence[str]) -> tuple[str, int] | None:
    """The token with this name, such as `mask_token`, and its number. If no file names it, it is the first of the
    `usual` ones that there is; None if there is none."""
    added = folder.part(TOKENIZER, "added_tokens") or []
    if not OBJECTS.holds(added) or not all(NATURAL.holds(token.get("id", 0)) for token in added):
        raise UsageError(f"'added_tokens' in {folder.path / TOKENIZER} is no list of tokens with their numbers")
    ids = {str(token.get("content")): token.get("id", -1) for token in added}
    named = [folder.part(file, name) for file in (SETTINGS, SPECIAL)]
    texts = [each.get("content") if isinstance(each, dict) else each for each in named]
    return next(((text, ids[text]) for text in (*texts, *usual) if isinstance(text, str) and text in ids), None)
