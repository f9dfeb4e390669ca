"""Tokens with a meaning of their own, such as the mask, by their names in the files of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.frontends.huggingface.folder import Folder

TOKENIZER, SETTINGS, SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"


def special_token(folder: Folder, name: str, usual: Sequence[str]) -> tuple[str, int] | None:
    """The token with this name, such as `mask_token`, and its number. If no file names it, it is the first of the
    `usual` ones that there is; None if there is none."""
    added = (folder.json(TOKENIZER) or {}).get("added_tokens") or ()
    ids = {str(token.get("content")): int(token.get("id", -1)) for token in added}
    named = [(folder.json(file) or {}).get(name) for file in (SETTINGS, SPECIAL)]
    texts = [each.get("content") if isinstance(each, dict) else each for each in named]
    return next(((text, ids[text]) for text in (*texts, *usual) if text in ids), None)
