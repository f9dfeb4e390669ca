"""The tokenizer of a GGUF file as `tokenizer.json`.

`gpt2` is byte-pair encoding of bytes; `tokenizer.ggml.pre` names how a text is cut before it. `llama` is SentencePiece:
the pair with the best score is merged, and what has no token is written in bytes. (Source: llama.cpp, `llama-vocab`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.gguf.reader import Gguf

SPECIAL_NAMES: Mapping[str, str | None] = {
    "bos": "bos",
    "eos": "eos",
    "unknown": "unk",
    "padding": "pad",
    "eot": None,
    "eom": None,
}
"""Special tokens by their names in GGUF, and their names in the files of a folder."""

CONTROL, OWN, BYTE = 3, 4, 6
"""Types of tokens: those with a meaning of their own, those that users added, bytes."""

_SPACE = "▁"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"

_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

PATTERNS: Mapping[str, str] = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "smaug-bpe": _LLAMA3,
    "qwen2": _QWEN2,
}
"""How texts are cut, by `tokenizer.ggml.pre`, as patterns."""

DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell")
"""Those where each digit is cut out, and the rest as for GPT-2."""

PLAIN = ("gpt-2", "gpt2", "mpt", "olmo", "jais", "phi-2", "exaone")
"""Those of GPT-2."""


def tokenizer_of(file: Gguf) -> dict[str, Any]:
    """Raises `UnsupportedModelError` for a kind of tokenizer that is not known, and `UsageError` for one that is
    damaged."""
    kind = file.metadata.get("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama"):
        raise UnsupportedModelError(f"{file.path} has a tokenizer of the kind {kind!r:.60}; there are gpt2 and llama")
    tokens = words_of(file)
    kinds = file.metadata.get("tokenizer.ggml.token_type")
    types = [1] * len(tokens) if kinds is None else [int(kind) for kind in kinds]
    if len(types) != len(tokens):
        raise UsageError(f"{file.path} is damaged: it has {len(tokens)} tokens and {len(types)} types of tokens")
    added = [
        _added(number, token, special=types[number] == CONTROL)
        for number, token in enumerate(tokens)
        if types[number] in (CONTROL, OWN)
    ]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    parts = _of_bytes(file, vocabulary) if kind == "gpt2" else _of_pieces(file, tokens, types, vocabulary)
    return {"added_tokens": added, "post_processor": _template(file, tokens, kind), **parts}


def documents_of(file: Gguf) -> dict[str, Any]:
    """What other files of a folder say: the special tokens, the template of conversations, and the tokens that end an
    answer."""
    tokens, metadata = words_of(file), file.metadata
    numbers = {name: metadata.get(f"tokenizer.ggml.{name}_token_id") for name in SPECIAL_NAMES}
    for name, number in numbers.items():
        if number is not None and not (isinstance(number, int) and 0 <= number < len(tokens)):
            raise UsageError(f"{file.path} is damaged: its token '{name}' is {number!r:.40} of {len(tokens)}")
    settings: dict[str, Any] = {
        f"{short}_token": tokens[number]
        for name, short in SPECIAL_NAMES.items()
        if short is not None and (number := numbers[name]) is not None
    }
    if isinstance(template := metadata.get("tokenizer.chat_template"), str):
        settings["chat_template"] = template
    stops = [number for name in ("eos", "eot", "eom") if (number := numbers[name]) is not None]
    return {"tokenizer_config.json": settings, "generation_config.json": {"eos_token_id": stops}}


def words_of(file: Gguf) -> Sequence[str]:
    """The tokens by their numbers."""
    found = file.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(found, list) or not all(isinstance(token, str) for token in found) or not found:
        raise UsageError(f"{file.path} has no tokens: it is damaged, or no language model")
    return found


def _added(number: int, token: str, *, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": token, "special": special, **flags}


def _of_bytes(file: Gguf, vocabulary: Mapping[str, int]) -> dict[str, Any]:
    merges = file.metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise UsageError(f"{file.path} has no merges of its tokenizer: it is damaged")
    pre = file.metadata.get("tokenizer.ggml.pre", "gpt-2")
    in_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    cuts: list[dict[str, Any]]
    if pre in PATTERNS:
        cuts = [
            {"type": "Split", "pattern": {"Regex": PATTERNS[pre]}, "behavior": "Isolated", "invert": False},
            in_bytes,
        ]
    elif pre in DIGITS:
        cuts = [{"type": "Digits", "individual_digits": True}, {**in_bytes, "use_regex": True}]
    elif pre in PLAIN:
        cuts = [{**in_bytes, "use_regex": True}]
    else:
        known = ", ".join((*PATTERNS, *DIGITS, *PLAIN))
        raise UnsupportedModelError(f"{file.path} cuts texts as {pre!r:.60} does, which is unknown; there are {known}")
    return {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": dict(vocabulary), "merges": list(merges), "ignore_merges": pre in PATTERNS},
    }


def _of_pieces(
    file: Gguf, tokens: Sequence[str], types: Sequence[int], vocabulary: Mapping[str, int]
) -> dict[str, Any]:
    scores = file.metadata.get("tokenizer.ggml.scores")
    if scores is None or len(scores) != len(tokens):
        raise UsageError(f"{file.path} has no score for each of its tokens: it is damaged")
    pairs: list[tuple[float, int, int, str]] = []
    for number, token in enumerate(tokens):
        if types[number] in (CONTROL, BYTE):
            continue
        for cut in range(1, len(token)):
            left, right = vocabulary.get(token[:cut]), vocabulary.get(token[cut:])
            if left is not None and right is not None:
                pairs.append((-float(scores[number]), left, right, f"{token[:cut]} {token[cut:]}"))
    pairs.sort()
    unknown = file.metadata.get("tokenizer.ggml.unknown_token_id")
    starts = file.metadata.get("tokenizer.ggml.add_space_prefix", True)
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    normalizers = [{"type": "Prepend", "prepend": _SPACE}, spaces] if starts else [spaces]
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if starts else []
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": {
            "type": "BPE",
            "vocab": dict(vocabulary),
            "merges": [text for *_, text in pairs],
            "unk_token": None if unknown is None else tokens[unknown],
            "fuse_unk": True,
            "byte_fallback": BYTE in types,
        },
    }


def _template(file: Gguf, tokens: Sequence[str], kind: str) -> dict[str, Any] | None:
    """The token in front of a text, if there is one."""
    number = file.metadata.get("tokenizer.ggml.bos_token_id")
    if not file.metadata.get("tokenizer.ggml.add_bos_token", kind == "llama") or number is None:
        return None
    if not 0 <= number < len(tokens):
        raise UsageError(f"{file.path} is damaged: its first token is {number} of {len(tokens)}")
    first, text, second = (
        tokens[number],
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}},
    )
    token = {"SpecialToken": {"id": first, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [token, text],
        "pair": [token, text, {"SpecialToken": {"id": first, "type_id": 1}}, second],
        "special_tokens": {first: {"id": first, "ids": [number], "tokens": [first]}},
    }
