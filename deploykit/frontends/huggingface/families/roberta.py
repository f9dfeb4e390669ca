"""RoBERTa, XLM-RoBERTa and CamemBERT: BERT with positions that count from behind the number of the padding token.

A token that is the padding token has the position of its number. (Source: Liu et al., "RoBERTa: A Robustly Optimized
BERT Pretraining Approach", 2019.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import masked, post_norm
from deploykit.frontends.huggingface.families.bert import DEFAULTS, ENCODER_ONLY, types
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import (
    hidden_and_pooled,
    masked_words,
    on_first,
    question_answering,
    token_classification,
)
from deploykit.frontends.huggingface.registry import Text, head, text_encoder
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask

FAMILY = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}


def positions(c: Config) -> int:
    return int(c.max_position_embeddings) - int(c.pad_token_id) - 1


@text_encoder(
    FAMILY,
    base="roberta",
    positions=positions,
    defaults={**DEFAULTS, "pad_token_id": 1},
    fixed=ENCODER_ONLY,
    unread=("pooler.",),
)
def roberta(m: Module, c: Config, text: Text) -> Tensor:
    e, attend = m["embeddings"], masked(c, as_mask(text.mask))
    x = e.embedding("word_embeddings", text.ids, c.vocab_size) + types(e, text)
    x = x + e.embedding("position_embeddings", text.ids.counted(c.pad_token_id), c.max_position_embeddings)
    x = e.layer_norm("LayerNorm", x, c.layer_norm_eps)
    for layer in m.layers("encoder.layer", c.num_hidden_layers):
        x = post_norm(layer, c, x, attend)
    return x


head(FAMILY, "Model")(hidden_and_pooled("roberta"))
head(FAMILY, "ForSequenceClassification")(on_first("tanh"))
head(FAMILY, "ForTokenClassification")(token_classification)
head(FAMILY, "ForQuestionAnswering")(question_answering)
head(FAMILY, "ForMaskedLM")(
    masked_words(
        "lm_head",
        "roberta.embeddings.word_embeddings.weight",
        dense="dense",
        norm="layer_norm",
        activation="gelu",
    )
)
