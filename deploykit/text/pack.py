"""Packing a tokenizer: `tokenizer.json` becomes the tables that the runtime reads, one file without pointers.

The steps of the runtime are: added tokens that are searched for in the text as it is, the normalizer, added tokens that
are searched for in the normalized text, the pre-tokenizer. The model and the template follow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deploykit.errors import UnsupportedModelError
from deploykit.text.blob import write_blob
from deploykit.text.characters import combining_classes, compositions, named
from deploykit.text.decoders import Decoder, Spelled, decoder_of, spell
from deploykit.text.growth import growth
from deploykit.text.merging import pack_merges
from deploykit.text.models import BPE, Model, model_of
from deploykit.text.normalizers import normalizer_steps
from deploykit.text.pretokenizers import pretokenizer_steps
from deploykit.text.program import Program, pack_steps, property_bits
from deploykit.text.reading import MOST_TOKENS, Part, is_id, refuse
from deploykit.text.spelling import spelled
from deploykit.text.steps import Added, Bytes, Charsmap, Compose, Step, Tokens, joined, runes_of
from deploykit.text.templates import Template, template_of
from deploykit.text.tries import MOST_PROBES, PackedTrie, Trie

TRIM, TRIM_PREFIX, LOSSY, DROPS_SPACE = 16, 32, 64, 128
"""Bits of the options, beside those of the model."""

SPECIAL, BYTE, ABSENT, READS_OTHERWISE, MERGED = 1, 2, 4, 8, 16
"""Flags of a token."""

Table = NDArray[np.generic]

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


def pack_fields(fields: Mapping[str, object], *, limit: int = 0, shortcuts: bool = True) -> bytes:
    """The tables of a tokenizer by the contents of `tokenizer.json`. `limit` is the most tokens of its model. Without
    `shortcuts`, the runtime merges the symbols of each piece, although it may be known what they lead to."""
    file = Part(fields, "the file")
    file.read |= {"version", "truncation", "padding", "added_tokens"}
    model_part = file.part("model")
    if model_part is None:
        refuse("the file", "it has no model")
    model = model_of(model_part)
    normalizer = joined(normalizer_steps(file.part("normalizer")))
    added = list(_added(file)) if file.fields.get("added_tokens") else []
    _check_ids(added, model)
    raw = tuple(token.added for token in added if not token.normalized)
    added = [_spelled(token, normalizer) if token.normalized else token for token in added]
    found = tuple(token.added for token in added if token.normalized)
    steps: list[Step] = [*([Tokens(raw)] if raw else []), *normalizer, *([Tokens(found)] if found else [])]
    steps = joined([*steps, *pretokenizer_steps(file.part("pre_tokenizer"))])
    if steps and steps[-1] == Bytes() and model.kind == BPE:
        # Instead of writing bytes in their alphabet and searching for that, the model works on bytes.
        steps, model = steps[:-1], model.on_bytes()
    template = template_of(file.part("post_processor"))
    decoder = decoder_of(file.part("decoder"))
    file.end()
    parts = _Parts(model, steps, added, template, decoder, limit, model.merged() if shortcuts else set())
    return _packed(parts)


@dataclass(frozen=True)
class _Token:
    added: Added
    content: str
    special: bool
    normalized: bool


@dataclass(frozen=True)
class _Parts:
    model: Model
    steps: Sequence[Step]
    added: Sequence[_Token]
    template: Template
    decoder: Decoder
    limit: int
    merged: set[int]

    def tokens(self) -> dict[int, str]:
        """All tokens by their ids, as decoders see them."""
        return {
            **{number: token for token, number in self.model.vocabulary.items()},
            **{token.added.id: token.added.text for token in self.added},
        }


def _added(file: Part) -> Iterable[_Token]:
    for part in file.parts("added_tokens"):
        text: str = part.get("content", str)
        number: int = part.get("id", int)
        special = part.get("special", bool, False)
        flags = (part.get(name, bool, False) for name in ("single_word", "lstrip", "rstrip"))
        token = _Token(Added(number, text, *flags), text, special, part.get("normalized", bool, not special))
        part.end()
        if not text:
            refuse(part.where, "the token is empty")
        if not is_id(number):
            refuse(part.where, f"the token '{text}' has the id {number}")
        yield token


def _check_ids(added: Sequence[_Token], model: Model) -> None:
    """Refuse ids that the library would not give: that of the vocabulary, else the next one behind it."""
    known = dict(model.vocabulary)
    following = len(known)
    for token in added:
        if token.content not in known:
            known[token.content] = following
            following += 1
        number = known[token.content]
        if number != token.added.id:
            refuse(
                "added_tokens",
                f"the token '{token.content}' has the id {token.added.id}, but by the vocabulary it is {number}",
            )


def _spelled(token: _Token, normalizer: Iterable[Step]) -> _Token:
    text = spelled(token.content, normalizer)
    if not text:
        refuse("added_tokens", f"nothing of the token '{token.content}' is left by the normalizer")
    return replace(token, added=replace(token.added, text=text))


def _packed(parts: _Parts) -> bytes:
    trie = Trie()
    parts.model.fill(trie)
    searched = [step for step in parts.steps if isinstance(step, Tokens | Charsmap)]
    program = Program()
    start = 0
    for index, step in enumerate(searched):
        if isinstance(step, Tokens):
            trie.add(f"step{index}", ((token.text.encode(), start + n) for n, token in enumerate(step.added)))
            start += len(step.added)
        else:
            trie.add(f"step{index}", ((key, program.place(runes_of(text))) for key, text in step.entries.items()))
    edges = trie.packed()
    if len(edges.table) + len(edges.roots) >= MOST_TOKENS or edges.probes > MOST_PROBES:
        refuse("model", "the vocabulary is too large")
    roots = {id(step): edges.roots[f"step{index}"] for index, step in enumerate(searched)}
    suffix = program.place(runes_of(parts.model.suffix)) + 1 if parts.model.suffix else 0
    pack_steps(program, parts.steps, lambda step: roots[id(step)], "normalizer or pre_tokenizer")
    merges, merge_probes = pack_merges(parts.model.merges)
    spelling = spell(parts.tokens(), parts.decoder)
    config = _config(parts, program, edges)
    config |= {"merge_probes": merge_probes, "suffix": suffix, "options": _options(parts, spelling)}
    return write_blob(config, {**_tables(parts, program, edges), "merges": merges, **_texts(parts, spelling)})


def _options(parts: _Parts, spelling: Spelled) -> int:
    flags = {
        TRIM: parts.template.trim,
        TRIM_PREFIX: parts.template.trim_prefix,
        LOSSY: parts.decoder.lossy,
        DROPS_SPACE: spelling.drops_space,
    }
    return parts.model.options | sum(bit for bit, holds in flags.items() if holds)


def _config(parts: _Parts, program: Program, edges: PackedTrie) -> dict[str, int]:
    model, template = parts.model, parts.template
    return {
        "model": model.kind,
        "unknown": model.unknown,
        "continuing": edges.node("model", model.prefix.encode()),
        "most_chars": model.most_chars,
        "step_count": len(parts.steps),
        "edge_probes": edges.probes,
        "class_count": len(program.classes.representatives),
        "runes_per_byte": ceil(16 * growth(parts.steps, in_bytes=False)),
        "symbols_per_byte": ceil(16 * growth(parts.steps, in_bytes=model.on_single_bytes)),
        "template_single": len(template.single),
        "template_pair": len(template.pair),
        "limit": parts.limit,
        "stripped": parts.decoder.stripped,
    }


def _tables(parts: _Parts, program: Program, edges: PackedTrie) -> dict[str, Table]:
    pages, classes = program.classes.pages()
    composes = any(isinstance(step, Compose) for step in parts.steps)
    return {
        "steps": np.array(program.words, np.uint32),
        "pages": pages,
        "classes": classes,
        "properties": property_bits(program),
        "actions": np.array(program.actions, np.uint32),
        "lookup": np.array(program.lookup, np.uint32),
        "pool": np.array(program.pool, np.uint32),
        "combining": combining_classes()[program.classes.representatives],
        "compositions": np.array(compositions() if composes else [], np.uint32),
        "columns": np.array(program.columns, np.uint8),
        "states": np.concatenate([table.ravel() for table in program.states] or [np.zeros(0, np.uint16)]),
        "trie": edges.table,
        "added": np.array(program.added, np.uint32),
        "bytes": parts.model.single_bytes,
        "scores": parts.model.scores,
        "spaces": _spaces(parts.tokens()) if parts.template.trim else np.zeros(0, np.uint8),
        "template": np.array([*parts.template.single, *parts.template.pair], np.uint32),
    }


def _spaces(tokens: Mapping[int, str]) -> Table:
    """How many characters at the ends of each token are white, or stand for a space."""
    white = named("white")
    found = np.zeros((max(tokens) + 1, 2), np.uint8)
    for number, text in tokens.items():
        solid = [index for index, char in enumerate(text) if char != "Ġ" and not white[ord(char)]]
        ends = (solid[0], len(text) - 1 - solid[-1]) if solid else (len(text), len(text))
        if max(ends) > 255:
            refuse("post_processor", f"it trims the token {number}, which has more than 255 white characters")
        found[number] = ends
    return found


def _texts(parts: _Parts, spelling: Spelled) -> dict[str, Table]:
    """What tokens read as, and their flags."""
    tokens = parts.tokens()
    special = {token.content for token in parts.added if token.special}
    flags = np.full(spelling.count, ABSENT, np.uint8)
    flags[list(tokens)] = 0
    flags[[number for number, token in tokens.items() if token in special]] |= SPECIAL
    flags[[number for number, token in tokens.items() if parts.decoder.is_byte(token)]] |= BYTE
    flags[[number for number, _ in spelling.first]] |= READS_OTHERWISE
    flags[list(parts.merged)] |= MERGED
    return {
        "spelled": np.cumsum([0, *map(len, spelling.texts)]).astype(np.uint32),
        "texts": np.frombuffer(b"".join(spelling.texts), np.uint8),
        "flags": flags,
        "first": np.array(spelling.first, np.uint32),
    }
