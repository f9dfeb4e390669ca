"""Small models of every family: the classes of transformers that compute the goldens, and their configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TEXT = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
}
"""The usual names of sizes."""

SIZES = ((1, 1), (2, 5), (3, 17))
"""Batches and lengths of the inputs. The first text of a batch has the whole length, others are shorter."""


@dataclass(frozen=True)
class Case:
    """`architecture` is a class of transformers; `settings` are entries of its configuration. `outputs` are compared.
    `tolerance` is relative to the largest expected value."""

    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("last_hidden_state",)
    tolerance: float = 1e-4
    ragged: bool = True


LOGITS = ("logits",)
SPANS = ("start_logits", "end_logits")

CASES: Mapping[str, Case] = {
    "bert": Case("BertModel", TEXT, ("last_hidden_state", "pooler_output")),
    "bert-classes": Case("BertForSequenceClassification", TEXT, LOGITS),
    "bert-tokens": Case("BertForTokenClassification", TEXT, LOGITS),
    "bert-answers": Case("BertForQuestionAnswering", TEXT, SPANS),
    "bert-words": Case("BertForMaskedLM", TEXT, LOGITS),
}
