"""Packing a tokenizer: `tokenizer.json` becomes the tables that the runtime reads, one file without pointers.

The steps of the runtime are: added tokens that are searched for in the text as it is, the normalizer, added tokens that
are searched for in the normalized text, the pre-tokenizer. The model and the template follow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import ceil
from pathlib import Path

import numpy as np

from deploykit.errors import UnsupportedModelError
from deploykit.text.blob import write_blob
from deploykit.text.characters import combining_classes, compositions, named
from deploykit.text.growth import growth
from deploykit.text.models import BYTES, Model, model_of
from deploykit.text.normalizers import normalizer_steps
from deploykit.text.pretokenizers import pretokenizer_steps
from deploykit.text.program import Program, pack_steps, property_bits
from deploykit.text.reading import Part, refuse
from deploykit.text.spelling import spelled
from deploykit.text.steps import Added, Step, Tokens, joined
from deploykit.text.templates import Template, template_of
from deploykit.text.tries import MOST_PROBES, PackedTrie, Trie

TRIM, TRIM_PREFIX = 16, 32
_UNKNOWN_LENGTH = 1 << 30
"""`model_max_length` of tokenizers that know none is far above this."""


def pack(folder: Path) -> bytes:
    """The tables of the tokenizer in a folder with `tokenizer.json` and perhaps `tokenizer_config.json`.

    Raises `UnsupportedModelError` for a part that is not supported, with its name, and for a file that is damaged."""
    settings = _read(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    limit = settings.get("model_max_length")
    known = int(limit) if isinstance(limit, int | float) and 0 < limit < _UNKNOWN_LENGTH else 0
    return pack_fields(_read(folder / "tokenizer.json"), limit=known)


def _read(path: Path) -> dict[str, object]:
    try:
        fields = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UnsupportedModelError(
            f"{path} is missing: save the tokenizer with transformers' save_pretrained"
        ) from None
    except ValueError as error:
        raise UnsupportedModelError(f"{path} is damaged: {error}") from error
    if not isinstance(fields, dict):
        raise UnsupportedModelError(f"{path} is no JSON object")
    return fields


def pack_fields(fields: dict[str, object], *, limit: int = 0) -> bytes:
    """The tables of a tokenizer by the contents of `tokenizer.json`. `limit` is the most tokens of its model."""
    file = Part(fields, "the file")
    for name in ("version", "truncation", "padding"):
        file.read.add(name)
    model_part = file.part("model")
    if model_part is None:
        refuse("the file", "it has no model")
    model = model_of(model_part)
    normalizer = joined(normalizer_steps(file.part("normalizer")))
    added = list(_added(file)) if file.fields.get("added_tokens") else []
    raw = tuple(token for token, normalized in added if not normalized)
    spelt = tuple(_spelled(token, normalizer) for token, normalized in added if normalized)
    pieces = pretokenizer_steps(file.part("pre_tokenizer"))
    steps: list[Step] = [
        *([Tokens(raw)] if raw else []),
        *normalizer,
        *([Tokens(spelt)] if spelt else []),
        *pieces,
    ]
    template = template_of(file.part("post_processor"))
    file.part("decoder")
    file.end()
    return _packed(model, steps, [token for token, _ in added], template, limit)


def _added(file: Part) -> Iterable[tuple[Added, bool]]:
    for part in file.parts("added_tokens"):
        text: str = part.get("content", str)
        number: int = part.get("id", int)
        part.get("special", bool, False)
        flags = (part.get(name, bool, False) for name in ("single_word", "lstrip", "rstrip"))
        token = Added(number, text, *flags)
        normalized = part.get("normalized", bool, True)
        part.end()
        if not text:
            refuse(part.where, "the token is empty")
        yield token, normalized


def _spelled(token: Added, normalizer: Iterable[Step]) -> Added:
    text = spelled(token.text, normalizer)
    if not text:
        refuse(f"the added token '{token.text}'", "nothing of it is left by the normalizer")
    return Added(token.id, text, token.single_word, token.left, token.right)


def _packed(model: Model, steps: list[Step], added: list[Added], template: Template, limit: int) -> bytes:
    trie = Trie()
    model.fill(trie)
    start = 0
    for index, step in enumerate(step for step in steps if isinstance(step, Tokens)):
        trie.add(f"added{index}", ((token.text.encode(), start + n) for n, token in enumerate(step.added)))
        start += len(step.added)
    edges = trie.packed()
    if len(edges.table) + len(edges.roots) >= 1 << 24 or edges.probes > MOST_PROBES:
        refuse("model", "the vocabulary is too large")
    names = iter(name for name in edges.roots if name.startswith("added"))
    program = pack_steps(steps, lambda _step: edges.roots[next(names)], "normalizer or pre_tokenizer")
    return write_blob(
        _config(model, steps, program, edges, template, limit), _tables(model, program, edges, added, template)
    )


def _config(
    model: Model, steps: list[Step], program: Program, edges: PackedTrie, template: Template, limit: int
) -> dict[str, int]:
    return {
        "model": model.kind,
        "unknown": model.unknown,
        "continuing": edges.node("model", model.prefix.encode()),
        "most_chars": model.most_chars,
        "step_count": len(steps),
        "edge_probes": edges.probes,
        "merge_probes": 0,
        "class_count": len(program.classes.representatives),
        "runes_per_byte": ceil(16 * growth(steps)),
        "symbols_per_rune": 4 if model.options & BYTES else 1,
        "template_single": len(template.single),
        "template_pair": len(template.pair),
        "limit": limit,
        "options": model.options | TRIM * template.trim | TRIM_PREFIX * template.trim_prefix,
        "suffix": 0,
    }


def _tables(
    model: Model, program: Program, edges: PackedTrie, added: list[Added], template: Template
) -> dict[str, np.ndarray]:
    pages, classes = program.classes.pages()
    return {
        "steps": np.array(program.words, np.uint32),
        "pages": pages,
        "classes": classes,
        "properties": property_bits(program),
        "actions": np.array(program.actions, np.uint32),
        "lookup": np.array(program.lookup, np.uint32),
        "pool": np.array(program.pool, np.uint32),
        "combining": combining_classes()[program.classes.representatives],
        "compositions": np.array(compositions(), np.uint32),
        "columns": np.array(program.columns, np.uint8),
        "states": np.concatenate([table.ravel() for table in program.states] or [np.zeros(0, np.uint16)]),
        "trie": edges.table,
        "added": np.array(program.added, np.uint32),
        "bytes": model.bytes,
        "spaces": _spaces(model, added) if template.trim else np.zeros(0, np.uint8),
        "template": np.array([*template.single, *template.pair], np.uint32),
    }


def _spaces(model: Model, added: list[Added]) -> np.ndarray:
    """How many characters at the ends of each token are white, or stand for a space."""
    white = named("white")
    texts = {number: text for text, number in model.vocabulary.items()} | {token.id: token.text for token in added}
    found = np.zeros((max(texts) + 1, 2), np.uint8)
    for number, text in texts.items():
        solid = [index for index, char in enumerate(text) if char != "Ġ" and not white[ord(char)]]
        ends = (solid[0], len(text) - 1 - solid[-1]) if solid else (len(text), len(text))
        found[number] = np.minimum(ends, 255)
    return found
