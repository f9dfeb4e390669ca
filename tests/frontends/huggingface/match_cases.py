"""Models that compare pictures with texts: their goldens, how pictures are prepared, and texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TEXTS = ("a cat.", "the", "cats and a very long word", "")
SETTINGS = {"pad_token": "[PAD]", "model_max_length": 20}
"""Of the tokenizer."""

SIDES = {"height": 16, "width": 16}


@dataclass(frozen=True)
class MatchCase:
    """Its name is that of the model's golden. `processor` is a class of transformers, with these entries; `inputs` are
    those for texts, which are padded in this way."""

    inputs: tuple[str, ...]
    padding: bool | str
    processor: str
    entries: Mapping[str, Any]


END = 3
"""The number of the token that ends a text."""


def ending(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a model whose texts end with this token."""
    return {**config, "text_config": {**config["text_config"], "eos_token_id": END}}


CROPPED = {"size": {"shortest_edge": 16}, "crop_size": SIDES}

MATCH_CASES: Mapping[str, MatchCase] = {
    "clip": MatchCase(("input_ids", "attention_mask"), True, "CLIPImageProcessorPil", CROPPED),
    "siglip": MatchCase(("input_ids",), "max_length", "SiglipImageProcessorPil", {"size": SIDES}),
}
