"""Models that fill masks: their goldens, their tokenizers, and texts with masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

COUNT = 40
"""Tokens for each mask."""

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "the", "cat", "##s", "##at", "."]
BYTES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "<mask>",
    "\u0120",
    *"abcdefghijklmnopqrstuvwxyz",
    "\u0120c",
    "at",
    "\u0120cat",
]


def pieces() -> Any:
    """BERT's tokenizer."""
    made = tokenizers.Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(WORDS[:5])
    return made


def bytelevel() -> Any:
    """RoBERTa's tokenizer: tokens begin with a space, which belongs to the mask, too."""
    merges = [("\u0120", "c"), ("a", "t"), ("\u0120c", "at")]
    made = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(BYTES)}, merges, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([*BYTES[:4], tokenizers.AddedToken("<mask>", lstrip=True)])
    return made


@dataclass(frozen=True)
class MaskCase:
    """Its name is that of the model's golden."""

    tokenizer: Callable[[], Any]
    mask: str
    texts: tuple[str, ...]


MASK_CASES: Mapping[str, MaskCase] = {
    "bert-words": MaskCase(
        pieces, "[MASK]", ("The [MASK] sat.", "[MASK]", "a cat [MASK]s the[MASK] ?", "[mask] [MASK]")
    ),
    "roberta-words": MaskCase(bytelevel, "<mask>", ("the <mask> sat", "<mask>", "a cat<mask> <mask><mask>cat")),
}
