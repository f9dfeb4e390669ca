"""MPNet: BERT with the positions of RoBERTa, and a bias by the distance between query and key that all blocks share.

(Source: Song et al., "MPNet: Masked and Permuted Pre-training for Language Understanding", 2020.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import Names, masked, post_norm
from deploykit.frontends.huggingface.distances import bias, buckets
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

NAMES = Names(
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    out="attention.attn.o",
    norm="attention.LayerNorm",
)

PADDING = 1
"""The padding token, whatever the configuration says."""


@text_encoder(
    {"mpnet": "MPNet"},
    base="mpnet",
    positions=lambda c: int(c.max_position_embeddings) - PADDING - 1,
    defaults={"hidden_act": "gelu", "layer_norm_eps": 1e-12, "tie_word_embeddings": True},
    fixed={"is_decoder": False, "is_encoder_decoder": False, "pruned_heads": {}, "relative_attention_num_buckets": 32},
    unread=("pooler.",),
)
def mpnet(m: Module, c: Config, text: Text) -> Tensor:
    e = m["embeddings"]
    x = e.embedding("word_embeddings", text.ids, c.vocab_size)
    x = x + e.embedding("position_embeddings", text.ids.counted(PADDING), c.max_position_embeddings)
    x = e.layer_norm("LayerNorm", x, c.layer_norm_eps)
    table = m.weight("encoder.relative_attention_bias.weight", 32, c.num_attention_heads)
    attend = masked(c, bias(table, buckets(32, 128), as_mask(text.mask)))
    for layer in m.layers("encoder.layer", c.num_hidden_layers):
        x = post_norm(layer, c, x, attend, NAMES)
    return x


head("mpnet", "Model")(hidden_and_pooled("mpnet"))
head("mpnet", "ForSequenceClassification")(on_first("tanh"))
head("mpnet", "ForTokenClassification")(token_classification)
head("mpnet", "ForQuestionAnswering")(question_answering)
head("mpnet", "ForMaskedLM")(
    masked_words(
        "lm_head",
        "mpnet.embeddings.word_embeddings.weight",
        dense="dense",
        norm="layer_norm",
        activation="gelu",
    )
)
