"""How sound becomes letters: what `preprocessor_config.json` says of samples, and the vocabulary of transcripts.

Newer folders have `processor_config.json`, with the same entries under `feature_extractor`. The vocabulary is in
`vocab.json`, with one for each language in folders of several, and what is special in `tokenizer_config.json`, or in
`special_tokens_map.json` and `added_tokens.json` of older folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.entries import LETTERS, NUMBERED, SOUNDS, check_settings
from deploykit.frontends.huggingface.folder import Folder

PREPROCESSOR, PROCESSOR, PART = "preprocessor_config.json", "processor_config.json", "feature_extractor"
VOCABULARY, TOKENIZER, SPECIAL, ADDED = (
    "vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)

EXTRACTORS = (None, "Wav2Vec2FeatureExtractor")
TOKENIZERS = (None, "Wav2Vec2CTCTokenizer")


@dataclass(frozen=True)
class Samples:
    """The rate of samples, and whether their mean is made 0 and their variance 1."""

    rate: int
    normal: bool


@dataclass(frozen=True)
class Letters:
    """What each output stands for, the one that is dropped, and whether transcripts are in lower case."""

    texts: tuple[str, ...]
    blank: str
    lower: bool


def read_samples(folder: Folder) -> Samples | None:
    """What the folder says of samples; None if it says nothing. Raises `UnsupportedModelError` for another extractor,
    and `UsageError` for a rate that makes no sense."""
    found, name = folder.json(PREPROCESSOR), PREPROCESSOR
    if found is None and folder.has(PROCESSOR):
        found, name = folder.part(PROCESSOR, PART), PROCESSOR
    if found is None:
        return None
    where = folder.path / name
    if not isinstance(found, dict):
        raise UsageError(f"{where} is no JSON object")
    check_settings(where, found, SOUNDS)
    kind, channels = found.get("feature_extractor_type"), found.get("feature_size", 1)
    if kind not in EXTRACTORS or channels != 1:
        raise UnsupportedModelError(
            f"{where} names the feature extractor {kind}, of {channels} channels; there is {EXTRACTORS[1]}, of one"
        )
    rate = found.get("sampling_rate", 16000)
    if not isinstance(rate, int) or rate < 1:
        raise UsageError(f"{where} says sampling_rate={rate!r}, which is no positive integer")
    return Samples(rate, bool(found.get("do_normalize", True)))


def read_letters(folder: Folder, count: int) -> Letters | None:
    """The letters of a model with `count` outputs; None if the folder has no vocabulary. Raises `UnsupportedModelError`
    for another tokenizer, and `UsageError` for a vocabulary of another model."""
    vocabulary = folder.json(VOCABULARY)
    if vocabulary is None:
        return None
    settings = {**(folder.object(SPECIAL) or {}), **(folder.object(TOKENIZER, LETTERS) or {})}
    kind, language = settings.get("tokenizer_class"), settings.get("target_lang")
    if kind not in TOKENIZERS or settings.get("clean_up_tokenization_spaces"):
        raise UnsupportedModelError(
            f"{folder.path / TOKENIZER} says tokenizer_class={kind!r}, "
            f"clean_up_tokenization_spaces={settings.get('clean_up_tokenization_spaces')!r}; there is {TOKENIZERS[1]}, "
            "which cleans nothing"
        )
    if language is not None:
        vocabulary = vocabulary.get(language) if isinstance(vocabulary, dict) else None
    if not NUMBERED.holds(vocabulary):
        raise UsageError(f"{folder.path / VOCABULARY} has no numbers of letters, target_lang={language!r}")
    names = {**_added(folder, settings), **{number: text for text, number in vocabulary.items()}}
    if min(names) < 0 or max(vocabulary.values()) >= count:
        raise UsageError(
            f"{folder.path / VOCABULARY} has {len(vocabulary)} letters, up to the number {max(names)}, but the model "
            f"has {count} outputs: the vocabulary belongs to another model"
        )
    unknown, blank = (_special(settings, name, usual) for name, usual in (("unk", "<unk>"), ("pad", "<pad>")))
    delimiter = settings.get("word_delimiter_token", "|")
    space = str(settings.get("replace_word_delimiter_char", " "))
    texts = (names.get(number, unknown) for number in range(count))
    lower = bool(settings.get("do_lower_case", False))
    return Letters(tuple(space if text == delimiter and text != blank else text for text in texts), blank, lower)


def _special(settings: Mapping[str, Any], name: str, usual: str) -> str:
    found = settings.get(f"{name}_token", usual)
    return str(found["content"] if isinstance(found, dict) else found)


def _added(folder: Folder, settings: Mapping[str, Any]) -> dict[int, str]:
    """Tokens that were added to the vocabulary."""
    given = folder.object(ADDED) or {}
    if not NUMBERED.holds(given):
        raise UsageError(f"{folder.path / ADDED} is no object of tokens with their numbers")
    newer = settings.get("added_tokens_decoder") or {}
    if not all(number.isdecimal() and isinstance(entry.get("content"), str) for number, entry in newer.items()):
        raise UsageError(f"'added_tokens_decoder' in {folder.path / TOKENIZER} has an entry without a number or a text")
    older = {number: text for text, number in given.items()}
    return older | {int(number): entry["content"] for number, entry in newer.items()}
